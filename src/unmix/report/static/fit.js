// Convergence: facts, and the remaining gain against the time.

function showFit() {
  const { trace } = page;
  const moves = trace.notes.map((note, i) => ({ note, i, kept: note.includes(": kept") }))
    .filter(({ note, i }) => trace.stages[i] === "refine" && note.startsWith("merge"));
  $("fit-facts").append(facts(page.figures.map(([name, value]) => [name, value.startsWith("-") ? minus(value) : value])));

  const best = Math.max(...trace.values.filter((value) => value !== null));
  const gaps = trace.values.map((value, i) => ({ x: trace.seconds[i], y: value === null ? null : best - value }));
  const residuals = trace.kkt.map((value, i) => ({ x: trace.seconds[i], y: value }));
  const charts = [chart(`${trace.name} below the best`, gaps, moves), chart("KKT residual, 0 at an optimum", residuals, [])];
  $("fit-charts").replaceChildren(...charts.filter(Boolean));

  const number = (value, show) => (value === null ? "" : show(value));
  const row = (show) => (i) => [String(trace.iterations[i]), number(trace.seconds[i], (value) => value.toFixed(3)),
    number(trace.values[i], show), number(trace.kkt[i], String), trace.stages[i], trace.notes[i]];
  unfolding($("fit-table"), () => ({ heads: ["iteration", "seconds", trace.name, "KKT", "stage", "note"], n: trace.seconds.length,
    row: row((value) => minus(grouped(value, 2))), numbers: row(String) }));
}

// A line against seconds with a log axis, redrawn when its width changes; null where there are not two points to draw.
function chart(title, points, moves) {
  const drawn = points.filter(({ x, y }) => x !== null && y !== null && y > 0);
  if (drawn.length < 2) return null;
  const box = el("div"), place = el("div", { class: "line" }, box);
  const draw = () => box.replaceChildren(lineChart(title, points, drawn, moves, Math.max(box.clientWidth, 200)));
  new ResizeObserver(draw).observe(box);
  corner(place, title.startsWith("KKT") ? "kkt" : "objective", () => copied(box.firstChild));
  return place;
}

function lineChart(title, points, drawn, moves, width) {
  const height = 190, edge = { left: 52, right: 10, top: 24, bottom: 34 };
  const right = Math.max(...drawn.map(({ x }) => x), 1e-9);
  const powers = drawn.map(({ y }) => Math.log10(y));
  const [low, high] = [Math.floor(Math.min(...powers)), Math.ceil(Math.max(...powers) + 1e-9)];
  const toX = (x) => edge.left + (x / right) * (width - edge.left - edge.right);
  const toY = (y) => edge.top + ((high - Math.log10(y)) / (high - low)) * (height - edge.top - edge.bottom);
  const text = (x, y, anchor, words) => svg("text", { x, y, "text-anchor": anchor }, words);
  const parts = [text(0, 10, "start", title), text(width - edge.right, height - 2, "end", "seconds")];
  for (let power = low; power <= high; power += Math.ceil((high - low) / 5)) {
    const y = toY(10 ** power), plain = Math.abs(power) <= 3;
    parts.push(svg("line", { class: "grid-line", x1: edge.left, x2: width - edge.right, y1: y, y2: y }));
    parts.push(text(edge.left - 7, y + 4, "end", plain ? String(Number((10 ** power).toPrecision(1))) : minus(`1e${power}`)));
  }
  for (const tick of roundTicks(0, right, width / 90)) parts.push(text(toX(tick), height - 16, "middle", String(tick)));
  const path = drawn.map(({ x, y }) => `${toX(x).toFixed(1)} ${toY(y).toFixed(1)}`).join("L");
  parts.push(svg("path", { class: "series", d: `M${path}` }));
  for (const { i, note, kept } of moves) {
    const { x, y } = points[i];
    if (x === null) continue;
    const at = { cx: toX(Math.min(x, right)), cy: y > 0 ? toY(y) : height - edge.bottom, r: 4.5 };
    parts.push(svg("circle", { class: kept ? "move kept" : "move", ...at }, svg("title", {}, note)));
  }
  const about = { role: "img", "aria-label": `${title}, against seconds; the table below holds the numbers` };
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, ...about }, ...parts);
}
