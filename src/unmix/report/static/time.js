// Mean proportions over time, as stacked areas.

function showTime() {
  if (!page.time.length) return;
  $("time").hidden = false;
  const box = $("time-plot"), canvas = box.querySelector("canvas"), said = $("time-said");
  const lines = page.time.map((line) => ({ ...line, codes: uint16(line.means) }));
  const edge = { left: 38, right: 6, top: 6, bottom: 22 };
  let at = null;
  $("time-column").append(...lines.map(({ column }) => el("option", {}, column)));
  $("time-column").addEventListener("change", (event) => update({ time: event.target.value }));
  const line = () => lines.find(({ column }) => column === state.time) ?? lines[0];
  const mean = (bin, k) => line().codes[bin * K + k] / 65535;
  const usual = () => {
    const total = line().samples.reduce((sum, size) => sum + size, 0);
    return "Mean proportions, every sample counting alike; gaps where there are none. " +
      `${counted(total, "sample")} in ${counted(line().labels.length, "bin")}.`;
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
  function choose(bin) {
    if (bin === at) return;
    at = bin;
    const { labels, samples: sizes } = line();
    if (at === null) said.textContent = usual();
    else {
      const best = page.order.slice().sort((a, b) => mean(at, b) - mean(at, a)).slice(0, 3);
      const parts = best.map((k) => `${k + 1} ${nameOf(k)} ${percent(mean(at, k))}`);
      said.textContent = `${labels[at]}: ${sizes[at] ? [counted(sizes[at], "sample"), ...parts].join("; ") : "no samples"}`;
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
  const refill = unfolding("time-table", () => {
    const { column, labels, samples: sizes } = line();
    const parts = (bin) => page.order.map((k) => (sizes[bin] ? percent(mean(bin, k)) : "–"));
    const rows = labels.map((label, bin) => [label, grouped(sizes[bin]), ...parts(bin)]);
    return grid([column, "samples", ...page.order.map((k) => `topic ${k + 1}`)], rows);
  });
  new ResizeObserver(draw).observe(box);
  follow(["time", "topic", "theme", "print"], () => {
    $("time-column").value = line().column;
    box.setAttribute("aria-label",
      `Mean proportions of topics by ${line().column}. Use the arrow keys to walk; the table below holds the same numbers.`);
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
