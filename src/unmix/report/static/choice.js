// How many topics: the log-likelihood of held-out counts below that of the best, with its error, by number of topics.

sections.choice = ({ curve, suggested }, card) => {
  const width = 640, height = 220, edge = { left: 64, right: 12, top: 12, bottom: 34 };
  const lowest = Math.max(1, ...curve.map(({ delta, error }) => delta + error));
  const most = Math.max(...curve.map(({ topics }) => topics)), least = Math.min(...curve.map(({ topics }) => topics));
  const x = (topics) => edge.left + ((topics - least + 0.5) / (most - least + 1)) * (width - edge.left - edge.right);
  // linear near the best, logarithmic far below
  const depth = (delta) => Math.log1p(delta / (lowest / 50)) / Math.log1p(50);
  const y = (delta) => edge.top + depth(Math.max(0, delta)) * (height - edge.top - edge.bottom);
  const text = (at, down, anchor, words) => svg("text", { x: at, y: down, "text-anchor": anchor }, words);
  const parts = [text(edge.left - 8, y(0) + 4, "end", "best"),
    text(edge.left - 8, y(lowest) + 4, "end", minus(`-${Math.round(lowest).toLocaleString("en")}`)),
    text((width + edge.left) / 2, height - 4, "middle", "topics")];
  for (const { topics, delta, error } of curve) {
    parts.push(svg("line", { class: "bar", x1: x(topics), x2: x(topics), y1: y(delta - error), y2: y(delta + error) }));
    const about = `${topics} topics: ${Math.round(delta).toLocaleString("en")} below the best, ± ${Math.round(error).toLocaleString("en")}`;
    parts.push(svg("circle", { class: `point${topics === suggested ? " suggested" : ""}`, cx: x(topics), cy: y(delta), r: 4 },
      svg("title", {}, about)));
    parts.push(text(x(topics), height - 18, "middle", String(topics)));
  }
  const about = { class: "curve", role: "img", "aria-label": "Held-out log-likelihood by number of topics; the table has the numbers" };
  card.querySelector(".title-row").after(svg("svg", { viewBox: `0 0 ${width} ${height}`, ...about }, ...parts));
};
