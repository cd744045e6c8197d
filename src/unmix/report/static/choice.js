// The number of topics: how much better held-out counts are predicted than with the fewest topics, with standard errors.

sections.choice = ({ curve, suggested, advice }, card) => {
  const width = 640, height = 250, edge = { left: 74, right: 14, top: 26, bottom: 38 };
  const numbers = curve.map(({ topics }) => topics), [least, most] = [Math.min(...numbers), Math.max(...numbers)];
  const worst = Math.max(...curve.map(({ delta, error }) => delta + error), 1);
  const x = (topics) => edge.left + ((topics - least + 0.5) / (most - least + 1)) * (width - edge.left - edge.right);
  const y = (delta) => edge.top + (delta / worst) * (height - edge.top - edge.bottom);
  const whole = (number) => minus(Math.round(number).toLocaleString("en"));
  const told = ({ topics, delta, error }) => [`${counted(topics, "topic")}${topics === suggested ? ", suggested" : ""}`,
    delta === 0 ? "the best prediction" : `log-likelihood of held-out counts ${whole(delta)} below the best, ± ${whole(error)}`];
  const said = el("p", { class: "hint", "aria-live": "polite" }), parts = [];
  for (const tick of roundTicks(0, worst, 4)) {
    parts.push(svg("line", { class: "grid-line", x1: edge.left, x2: width - edge.right, y1: y(tick), y2: y(tick) }),
      svgText(edge.left - 8, y(tick) + 4, "end", tick === 0 ? "best" : whole(-tick)));
  }
  const band = (sign) => curve.map(({ topics, delta, error }) => `${x(topics).toFixed(1)},${y(Math.max(0, delta + sign * error)).toFixed(1)}`);
  parts.push(svg("polygon", { class: "band", points: [...band(1), ...band(-1).reverse()].join(" ") }),
    svg("polyline", { class: "trend", points: curve.map(({ topics, delta }) => `${x(topics)},${y(delta)}`).join(" ") }),
    svg("line", { class: "suggested", x1: x(suggested), x2: x(suggested), y1: edge.top, y2: height - edge.bottom }),
    svgText(x(suggested), edge.top - 10, "middle", `suggested: ${suggested}`),
    svgText((width + edge.left) / 2, height - 4, "middle", "number of topics"));
  const every = Math.ceil(curve.length / 24);
  curve.forEach((row, i) => {
    const point = svg("circle", { class: `point${row.topics === suggested ? " suggested" : ""}`, cx: x(row.topics), cy: y(row.delta), r: 4 });
    if (i % every === 0 || row.topics === suggested) parts.push(svgText(x(row.topics), height - 22, "middle", String(row.topics)));
    const area = svg("rect", { class: "hit", x: x(row.topics - 0.5), y: edge.top, width: x(1) - x(0), height: height - edge.top - edge.bottom });
    const group = svg("g", {}, area, point);
    group.addEventListener("pointermove", (event) => showTip(event.clientX, event.clientY, el("b", {}, told(row)[0]), el("div", { class: "about" }, told(row)[1])));
    group.addEventListener("pointerenter", () => { said.textContent = told(row).join(": "); });
    group.addEventListener("pointerleave", () => { hideTip(); said.textContent = usual; });
    parts.push(group);
  });
  const usual = "Prediction of held-out counts, with a band of ± 1 standard error. Higher is better. Hover for numbers.";
  said.textContent = usual;
  const about = { class: "curve", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Held-out log-likelihood by number of topics; the table has the numbers" };
  const drawn = svg("svg", about, ...parts);
  card.querySelector(".title-row").after(el("p", {}, sentence(advice[0])), drawn, said);
  corner(card.querySelector(".title-row .row"), "number-of-topics", () => copied(drawn));
};
