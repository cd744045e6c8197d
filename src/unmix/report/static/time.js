// Mean proportions over time: stacked areas, or a panel per topic.

function showTime() {
  if (!page.time.length || K === 1) return;
  $("time").hidden = false;
  const box = $("time-plot"), canvas = box.querySelector("canvas"), said = $("time-said");
  const lines = page.time.map((line) => ({ ...line, codes: uint16(line.means) }));
  const edge = { left: 38, right: 6, top: 6, bottom: 22 };
  const panels = $("time-panels");
  let at = null, from = 0;
  $("time-column").append(...lines.map(({ column }) => el("option", {}, column)));
  $("time-column").addEventListener("change", (event) => update({ time: event.target.value }));
  $("time-view").addEventListener("change", (event) => update({ areas: event.target.value }));
  const separate = () => state.areas === "separate";
  const line = () => lines.find(({ column }) => column === state.time) ?? lines[0];
  const mean = (bin, k) => line().codes[bin * K + k] / 65535;
  const usual = () => {
    const total = line().samples.reduce((sum, size) => sum + size, 0);
    return `Mean proportions of ${counted(total, "sample")} in ${counted(line().labels.length, "bin")}; all samples have equal weight. Gaps: no samples.`;
  };

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
      // a bin on its own is drawn in its full width
      const [left, right] = first === last ? [x(first) - step / 2, x(first) + step / 2] : [x(first), x(last)];
      // from the full height down, each area over the last, so that no seam shows
      for (let s = K - 1; s >= 0; s--) {
        const heights = tops.map((sums) => y(s === K - 1 ? 1 : Math.min(1, sums[s])));
        context.fillStyle = colours[stack[s]];
        context.beginPath();
        context.moveTo(left, y(0));
        context.lineTo(left, heights[0]);
        heights.forEach((height, j) => context.lineTo(x(first + j), height));
        context.lineTo(right, heights.at(-1));
        context.lineTo(right, y(0));
        context.fill();
      }
    }
    context.fillStyle = themed("--muted");
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const part of [0, 0.5, 1]) context.fillText(part ? `${100 * part}%` : "0", edge.left - 6, Math.max(8, y(part)));
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
  function drawPanels() {
    const { labels, samples: sizes } = line(), every = Math.ceil(labels.length / 4);
    const ticks = labels.map((label, bin) => [bin, label.split(/\s*–\s*/)[0]]).filter(([bin]) => bin % every === 0);
    const bins = labels.map((_, bin) => bin).filter((bin) => sizes[bin]);
    const told = ({ at, mean }) => `${labels[at]}: ${percent(mean)} (${counted(sizes[at], "sample")})`;
    panels.replaceChildren(...paged("topics over time", from, (k) => {
      const drawn = trend([{ colour: colourOf(k), rows: bins.map((bin) => ({ at: bin, mean: mean(bin, k), low: null, high: null })) }], ticks, told);
      drawn.setAttribute("role", "img");
      drawn.setAttribute("aria-label", `Mean proportion of topic ${k + 1} by ${line().column}; the table has the numbers`);
      return el("figure", { "data-topic": k + 1 }, topicLink(k), drawn);
    }, (place) => { from = place; drawPanels(); }));
  }
  const forget = pointed(box, {
    at: (x, _, { width }) => {
      const bins = line().labels.length, bin = Math.floor(((x - edge.left) / (width - edge.left - edge.right)) * bins);
      return bin >= 0 && bin < bins ? bin : null;
    },
    step: along(() => line().labels.length),
    choose: (bin) => {
      at = bin;
      const { labels, samples: sizes } = line();
      if (at === null) said.textContent = usual();
      else {
        const best = page.order.slice().sort((a, b) => mean(at, b) - mean(at, a)).slice(0, 3);
        const parts = best.map((k) => `${k + 1} ${nameOf(k)} ${percent(mean(at, k))}`);
        said.textContent = `${labels[at]}: ${sizes[at] ? [counted(sizes[at], "sample"), ...parts].join("; ") : "no samples"}`;
      }
      draw();
    },
  });
  const refill = unfolding($("time-table"), () => {
    const { column, labels, samples: sizes } = line();
    const row = (show) => (bin) => [labels[bin], String(sizes[bin]), ...page.order.map((k) => (sizes[bin] ? show(mean(bin, k)) : ""))];
    return { heads: [column, "samples", ...page.order.map((k) => `topic ${k + 1}`)], n: labels.length, row: row(percent), numbers: row((part) => part.toFixed(5)) };
  });
  new ResizeObserver(draw).observe(box);
  corner(box.parentElement, "topics-over-time", () => withKeys(recorded(canvas, draw)));
  cornerOfPanels(panels.parentElement, "topics-over-time", panels);
  const [ofAreas, ofPanels] = [...box.parentElement.children].filter((node) => node.matches(".corner"));
  follow(["time", "topic", "theme", "print", "areas", "names", "list"], () => {
    $("time-column").value = line().column;
    $("time-view").value = state.areas;
    box.hidden = ofAreas.hidden = separate();
    panels.hidden = ofPanels.hidden = !separate();
    $("time").classList.toggle("half", !separate());
    box.setAttribute("aria-label",
      `Mean proportions of topics by ${line().column}. Use the arrow keys to move; the table below has the same numbers.`);
    at = null;
    forget();
    said.textContent = usual();
    if (separate()) drawPanels();
    else draw();
    refill();
  });
}
// The mean proportions of a topic as a small line.
function spark(k) {
  const { labels, samples: sizes, means } = page.time[0], codes = uint16(means), bins = labels.map((_, bin) => bin).filter((bin) => sizes[bin]);
  const most = Math.max(1, ...bins.map((bin) => codes[bin * K + k]));
  const points = bins.map((bin) => `${(1 + (88 * bin) / (labels.length - 1)).toFixed(1)},${(20 - (18 * codes[bin * K + k]) / most).toFixed(1)}`);
  const about = { role: "img", "aria-label": `Topic ${k + 1} over ${page.time[0].column}, up to ${percent(most / 65535)}` };
  return svg("svg", { class: "spark", viewBox: "0 0 90 22", ...about }, svg("polyline", { points: points.join(" ") }));
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
