// Mean proportions by group or over time: a small chart for every topic; lines of several groups have colours of their own.

sections.prevalence = ({ by, over, level, groups, colours, topics, dates, examples }, card) => {
  const width = 300, edge = { left: over ? 40 : 104, right: 14, top: 8, bottom: 20 };
  const text = (x, y, anchor, words) => svg("text", { x, y, "text-anchor": anchor }, words);
  const date = (days) => new Date(86400000 * days).toISOString().slice(0, 10);
  const told = ({ group, bin, samples, mean, low, high }) => `${[by ? groups[group] : "", bin].filter(Boolean).join(", ")}: ` +
    `${percent(mean)}${low === null ? "" : `, ${percent(low)} to ${percent(high)}`} (${counted(samples, "sample")})`;
  const highest = (rows) => Math.min(1, 1.06 * Math.max(1e-9, ...rows.map(({ mean, high }) => Math.max(mean, high ?? 0))));

  function byGroup(k, rows) {
    const height = edge.top + 19 * rows.length + edge.bottom, top = highest(rows);
    const x = (part) => edge.left + (part / top) * (width - edge.left - edge.right), parts = [];
    for (const tick of roundTicks(0, top, 4)) {
      parts.push(svg("line", { class: "grid-line", x1: x(tick), x2: x(tick), y1: edge.top, y2: height - edge.bottom }),
        text(x(tick), height - 5, "middle", `${Number((100 * tick).toPrecision(3))}%`));
    }
    rows.forEach((row, place) => {
      const y = edge.top + 19 * (place + 0.5), name = groups[row.group], colour = page.topics[k].colour;
      const cut = name.length > 15 ? `${name.slice(0, 14)}…` : name;
      const line = row.low === null ? [] : [svg("line", { class: "range", stroke: colour, x1: x(row.low), x2: x(row.high), y1: y, y2: y })];
      parts.push(svg("g", {}, svg("title", {}, told(row)), text(edge.left - 8, y + 4, "end", cut), ...line,
        svg("circle", { cx: x(row.mean), cy: y, r: 4, fill: colour })));
    });
    return { height, parts };
  }
  function overTime(k, rows) {
    const height = 150, top = highest(rows), values = rows.map(({ at }) => at), parts = [];
    const [least, most] = [Math.min(...values), Math.max(...values)];
    const x = (at) => edge.left + ((at - least) / (most - least || 1)) * (width - edge.left - edge.right);
    const y = (part) => edge.top + (1 - part / top) * (height - edge.top - edge.bottom);
    for (const tick of roundTicks(0, top, 4)) {
      parts.push(svg("line", { class: "grid-line", x1: edge.left, x2: width - edge.right, y1: y(tick), y2: y(tick) }),
        text(edge.left - 6, y(tick) + 4, "end", `${Number((100 * tick).toPrecision(3))}%`));
    }
    const ticks = dates ? [least, (least + most) / 2, most] : roundTicks(least, most, 4);
    for (const tick of ticks) parts.push(text(x(tick), height - 5, "middle", dates ? date(tick).slice(0, 7) : minus(String(tick))));
    groups.forEach((_, group) => {
      const own = rows.filter((row) => row.group === group), colour = by ? colours[group] : page.topics[k].colour;
      const at = (row, part) => `${x(row.at)},${y(part)}`;
      const band = (known) => [...known.map((row) => at(row, row.high)), ...known.map((row) => at(row, row.low)).reverse()].join(" ");
      const known = runs(own.map(({ low }) => Number(low !== null))).map(([first, last]) => own.slice(first, last + 1));
      parts.push(...known.map((rows) => svg("polygon", { class: "band", points: band(rows), fill: colour })),
        svg("polyline", { class: "trend", points: own.map((row) => at(row, row.mean)).join(" "), stroke: colour }),
        ...own.map((row) => svg("circle", { cx: x(row.at), cy: y(row.mean), r: 3.2, fill: colour }, svg("title", {}, told(row)))));
    });
    return { height, parts };
  }
  const panels = page.order.map((k) => {
    const { height, parts } = (over ? overTime : byGroup)(k, topics[k]);
    const label = `Mean proportions of topic ${k + 1}; the table has the numbers`;
    const list = examples[k].map(({ sample, proportion }) => `${sample} ${percent(proportion)}`).join("; ");
    return el("figure", { "data-topic": k + 1 }, topicLink(k),
      svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...parts),
      list ? el("figcaption", { class: "hint" }, `Such as ${list}.`) : null);
  });
  const keys = over && by ? groups.map((group, place) => el("span", {}, el("i", { "--colour": colours[place] }), group)) : [];
  const where = `Mean proportions${by ? ` by ${by}` : ""}${over ? ` over ${over}` : ""}, every sample counting alike, with ${wholePercent(level)} intervals.`;
  card.querySelector(".title-row").after(el("p", { class: "hint" }, where), el("div", { class: "keys hint" }, ...keys),
    el("div", { class: "panels" }, ...panels));
  const table = card.querySelector(".scroll"), details = el("details", {}, el("summary", {}, "Means as a table"));
  table.replaceWith(details);
  details.append(table);
  follow(["names"], () => panels.forEach((panel, place) => panel.firstChild.replaceWith(topicLink(page.order[place]))));
};
