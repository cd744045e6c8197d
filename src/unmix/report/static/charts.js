// Means over time, and how the fit went.

function showTime() {
  if (!page.time.length) {
    $("main").classList.add("no-time");
    return;
  }
  $("time").hidden = false;
  const box = $("time-plot"), canvas = box.querySelector("canvas"), said = $("time-said");
  const lines = page.time.map((line) => ({ ...line, codes: uint16(line.means) }));
  const edge = { left: 38, right: 6, top: 6, bottom: 22 };
  let at = null;
  $("time-column").append(...lines.map(({ column }) => el("option", {}, column)));
  $("time-column").addEventListener("change", (event) => update({ time: event.target.value }));
  const line = () => lines.find(({ column }) => column === state.time) ?? lines[0];
  const mean = (bin, k) => line().codes[bin * K + k] / 65535;
  const usual = () => `Mean proportions, every sample counting alike; gaps where there are none. ${counted(line().samples.reduce((a, b) => a + b, 0), "sample")} in ${line().labels.length} bins.`;

  function draw() {
    const { context, width, height } = sharp(canvas);
    const { labels, samples: sizes } = line();
    const bins = labels.length, step = (width - edge.left - edge.right) / bins;
    const x = (bin) => edge.left + (bin + 0.5) * step, y = (part) => edge.top + (1 - part) * (height - edge.top - edge.bottom);
    const colours = shownColours().map(rgb), stack = stackOrder();
    for (const [first, last] of runs(sizes)) {
      const tops = [];
      for (let bin = first; bin <= last; bin++) {
        let sum = 0;
        tops.push(stack.map((k) => (sum += mean(bin, k))));
      }
      // from the full height down, each area over the last, so that no seam shows
      for (let s = K - 1; s >= 0; s--) {
        context.fillStyle = colours[stack[s]];
        context.beginPath();
        context.moveTo(x(first) - (first === last ? step / 2 : 0), y(0));
        tops.forEach((heights, j) => {
          const top = y(s === K - 1 ? 1 : Math.min(1, heights[s]));
          if (first === last) { context.lineTo(x(first) - step / 2, top); context.lineTo(x(first) + step / 2, top); }
          else context.lineTo(x(first + j), top);
        });
        context.lineTo(x(last) + (first === last ? step / 2 : 0), y(0));
        context.fill();
      }
    }
    context.fillStyle = themed("--muted");
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const part of [0, 0.5, 1]) context.fillText(part ? `${100 * part}%` : "0", edge.left - 6, Math.min(height - edge.bottom, Math.max(8, y(part))));
    context.textAlign = "center";
    const starts = labels.map((label) => label.split(/\s*–\s*/)[0]);
    const every = Math.max(1, Math.ceil((Math.max(...starts.map((text) => context.measureText(text).width)) + 14) / step));
    for (let bin = 0; bin < bins; bin += every) context.fillText(starts[bin], Math.max(x(bin), edge.left + 10), height - 8);
    if (at !== null) {
      context.strokeStyle = themed("--ink");
      context.lineWidth = 1.5;
      context.strokeRect(x(at) - step / 2, edge.top, step, height - edge.top - edge.bottom);
    }
  }
  function choose(bin) {
    if (bin === at) return;
    at = bin;
    const { labels, samples: sizes } = line();
    if (at === null) said.textContent = usual();
    else {
      const best = page.order.slice().sort((a, b) => mean(at, b) - mean(at, a)).slice(0, 3);
      said.textContent = `${labels[at]}: ${sizes[at] ? `${counted(sizes[at], "sample")}; ` + best.map((k) => `${k + 1} ${nameOf(k)} ${percent(mean(at, k))}`).join("; ") : "no samples"}`;
    }
    draw();
  }
  box.addEventListener("pointermove", (event) => {
    const { left, width } = box.getBoundingClientRect(), bins = line().labels.length;
    const bin = Math.floor(((event.clientX - left - edge.left) / (width - edge.left - edge.right)) * bins);
    choose(bin >= 0 && bin < bins ? bin : null);
  });
  box.addEventListener("pointerleave", () => choose(null));
  box.addEventListener("blur", () => choose(null));
  box.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    choose(at === null ? 0 : Math.min(line().labels.length - 1, Math.max(0, at + step)));
  });
  const refill = unfolding("time-table", () => grid([line().column, "samples", ...page.order.map((k) => `topic ${k + 1}`)],
    line().labels.map((label, bin) => [label, grouped(line().samples[bin]), ...page.order.map((k) => (line().samples[bin] ? percent(mean(bin, k)) : "–"))])));
  new ResizeObserver(draw).observe(box);
  views.push((keys) => {
    if (!["time", "topic", "theme", "print"].some((key) => keys.has(key))) return;
    $("time-column").value = line().column;
    box.setAttribute("aria-label", `Mean proportions of topics by ${line().column}. Use the arrow keys to walk; the table below holds the same numbers.`);
    at = null;
    said.textContent = usual();
    draw();
    refill();
  });
}

// Runs of bins that hold samples.
function runs(sizes) {
  const found = [];
  sizes.forEach((size, bin) => {
    if (!size) return;
    if (found.length && found.at(-1)[1] === bin - 1) found.at(-1)[1] = bin;
    else found.push([bin, bin]);
  });
  return found;
}

function showFit() {
  const { trace } = page;
  const last = trace.seconds.length - 1;
  const moves = trace.notes.map((note, i) => ({ note, i })).filter(({ i }) => trace.stages[i] === "refine" && trace.notes[i].startsWith("merge"));
  const kept = moves.filter(({ note }) => note.includes(": kept"));
  const starts = trace.notes.filter((note, i) => trace.stages[i] === "start" && note);
  const params = new Map(page.reproduce.params);
  const kkt = trace.kkt.filter((value) => value !== null);
  const facts = [["ended", { converged: "converged", max_iter: "not converged: max_iter reached", interrupted: "interrupted" }[page.status]]];
  if (last >= 0) facts.push(["took", `${counted(trace.iterations[last], "iteration")}, ${(trace.seconds[last] ?? 0).toPrecision(3)} s`]);
  const contest = /^(topic-score|random \d+)$/.test(starts[0]) && params.get("init") === "auto" ? " (the winner of a short contest)" : "";
  if (starts.length) facts.push(["started from", starts.join(", ") + contest]);
  if (page.objective) facts.push([page.objective.name, page.objective.value === null ? "unknown" : minus(grouped(page.objective.value, 2))]);
  if (page.loglik !== null) facts.push(["log-likelihood", minus(grouped(page.loglik, 2))]);
  if (kkt.length) facts.push(["KKT residual", Number(kkt.at(-1).toPrecision(2)).toString()]);
  if (moves.length) facts.push(["split–merge moves", `${moves.length} tried, ${kept.length} kept`]);
  definitions($("fit-facts"), facts);

  const best = Math.max(...trace.values.filter((value) => value !== null));
  const gaps = trace.values.map((value, i) => ({ x: trace.seconds[i], y: value === null ? null : best - value, i }));
  const dots = moves.map(({ i, note }) => ({ i, kept: note.includes(": kept"), title: note }));
  const charts = [chart(`${trace.name} below the best`, gaps, dots)];
  if (kkt.length > 1) charts.push(chart("KKT residual", trace.kkt.map((value, i) => ({ x: trace.seconds[i], y: value, i })), []));
  $("fit-charts").replaceChildren(...charts.filter(Boolean));
  unfolding("fit-table", () => grid(["iteration", "seconds", trace.name, "KKT", "stage", "note"],
    trace.seconds.map((seconds, i) => [String(trace.iterations[i]), seconds === null ? "" : seconds.toFixed(3), trace.values[i] === null ? "" : minus(grouped(trace.values[i], 2)),
      trace.kkt[i] === null ? "" : String(trace.kkt[i]), trace.stages[i], trace.notes[i]])));
}

// A line against seconds with a log axis, drawn anew when its width changes; null where there are not two points to draw.
function chart(title, points, dots) {
  const drawn = points.filter(({ x, y }) => x !== null && y !== null && y > 0);
  if (drawn.length < 2) return null;
  const box = el("div");
  new ResizeObserver(() => box.replaceChildren(lineOf(title, points, drawn, dots, Math.max(box.clientWidth, 200)))).observe(box);
  return box;
}

function lineOf(title, points, drawn, dots, width) {
  const height = 190, edge = { left: 52, right: 10, top: 24, bottom: 34 };
  const right = Math.max(...drawn.map(({ x }) => x), 1e-9);
  const [low, high] = [Math.floor(Math.log10(Math.min(...drawn.map(({ y }) => y)))), Math.ceil(Math.log10(Math.max(...drawn.map(({ y }) => y))) + 1e-9)];
  const toX = (x) => edge.left + (x / right) * (width - edge.left - edge.right);
  const toY = (y) => edge.top + ((high - Math.log10(y)) / Math.max(high - low, 1)) * (height - edge.top - edge.bottom);
  const parts = [];
  const every = Math.max(1, Math.ceil((high - low) / 5));
  for (let power = low; power <= high; power += every) {
    const y = toY(10 ** power);
    parts.push(svg("line", { class: "grid-line", x1: edge.left, x2: width - edge.right, y1: y, y2: y }),
      svg("text", { x: edge.left - 7, y: y + 4, "text-anchor": "end" }, Math.abs(power) <= 3 ? String(Number((10 ** power).toPrecision(1))) : minus(`1e${power}`)));
  }
  for (const tick of roundTicks(0, right, width / 90)) parts.push(svg("text", { x: toX(tick), y: height - 16, "text-anchor": "middle" }, String(tick)));
  parts.push(svg("text", { x: width - edge.right, y: height - 2, "text-anchor": "end" }, "seconds"), svg("text", { x: 0, y: 10 }, title));
  parts.push(svg("path", { class: "series", d: drawn.map(({ x, y }, j) => `${j ? "L" : "M"}${toX(x).toFixed(1)} ${toY(y).toFixed(1)}`).join("") }));
  for (const { i, kept, title: text } of dots) {
    const point = points[i];
    if (point.x === null) continue;
    parts.push(svg("circle", { class: kept ? "move kept" : "move", r: 4.5, cx: toX(Math.min(point.x, right)), cy: point.y > 0 ? toY(point.y) : height - edge.bottom }, svg("title", {}, text)));
  }
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}, against seconds; the table below holds the numbers` }, ...parts);
}
