// The Structure plot: one column per sample. Columns are drawn once per order, as pixels; marks for the pointer, the keyboard and
// the zoom are on a canvas above, so that hovering redraws almost nothing.

const plot = { sequence: null, groups: [], units: 1, view: [0, 1], at: null, drag: null };

// Samples in the chosen order. Along the axis each has width 1, and groups a gap between them.
function arrange() {
  const n = samples.n;
  const group = state.group ? columnNamed(state.group) : null;
  const last = (value) => (Number.isNaN(value) ? Infinity : value); // where it is missing
  const groupOf = (i) => (group ? last(group.values[i]) : 0);
  const keyOf = orderKey();
  const compare = (one, other) => (one === other ? 0 : one - other);
  plot.sequence = Uint32Array.from({ length: n }, (_, i) => i).sort((a, b) =>
    compare(groupOf(a), groupOf(b)) || compare(last(keyOf(a)), last(keyOf(b))) || samples.rank[a] - samples.rank[b]);
  plot.groups = [];
  plot.sequence.forEach((sample, place) => {
    const value = groupOf(sample), current = plot.groups.at(-1);
    if (current?.value === value) current.size += 1;
    else plot.groups.push({ value, label: group ? valueText(group, group.values[sample]) : "", first: place, size: 1 });
  });
  const gap = plot.groups.length > 1 ? n / Math.max(250, 10 * plot.groups.length) : 0;
  plot.groups.forEach((block, g) => { block.start = block.first + g * gap; });
  plot.units = n + gap * (plot.groups.length - 1);
  plot.place = new Uint32Array(n);
  plot.sequence.forEach((sample, place) => { plot.place[sample] = place; });
  plot.view = [0, plot.units];
  plot.at = null;
}

// What samples are sorted by, as a function of a sample.
function orderKey() {
  if (state.order === "similarity") return (i) => samples.rank[i];
  if (state.order === "file") return (i) => i;
  const column = columnOfOrder(state.order), topic = whole(state.order.slice("topic:".length), K);
  return column ? (i) => column.values[i] : (i) => -proportion(i, topic);
}

// The place in the sequence at a point of the axis; null in a gap.
function placeAt(unit) {
  let low = 0, high = plot.groups.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (plot.groups[middle].start <= unit) low = middle;
    else high = middle - 1;
  }
  const block = plot.groups[low];
  const inside = Math.floor(unit - block.start);
  return inside >= 0 && inside < block.size ? block.first + inside : null;
}
// The left edge of a place, along the axis.
function unitOf(place) {
  let low = 0, high = plot.groups.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (plot.groups[middle].first <= place) low = middle;
    else high = middle - 1;
  }
  return plot.groups[low].start + place - plot.groups[low].first;
}

// Where a point of the axis lies on a picture so many pixels wide.
const toX = (unit, width) => ((unit - plot.view[0]) / (plot.view[1] - plot.view[0])) * width;

function drawBars() {
  const canvas = $("bars");
  const { context } = sharp(canvas);
  const { width, height } = canvas;
  const [from, to] = plot.view;
  const perPixel = (to - from) / width;
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const colours = shownColours().map(([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r);
  const stack = stackOrder();
  const means = meansInView();
  const dense = perPixel * (devicePixelRatio || 1);
  $("structure-means").hidden = means === null && dense < 1.5;
  $("each-sample").hidden = !$("structure-means").hidden;
  $("structure-means").textContent = means ? "Bars are means of samples with the same or consecutive values. Zoom in for single samples."
    : `Each column is the mean of about ${counted(Math.round(dense), "sample")}. Zoom in for single samples.`;
  const bands = Array.from({ length: K }, () => new Float32Array(2 * width)); // top and bottom of each topic, by pixel
  const column = means ? inBars(means, from, perPixel) : perPixel > 1 ? averaged(from, perPixel, width) : single(from, perPixel);
  for (let x = 0; x < width; x++) {
    const parts = column(x);
    if (parts === null) continue;
    let sum = 0, below = height;
    for (let s = 0; s < K; s++) {
      sum += parts[stack[s]];
      const top = s === K - 1 ? 0 : Math.max(0, Math.round(height * (1 - sum)));
      for (let y = top; y < below; y++) pixels[y * width + x] = colours[stack[s]];
      bands[stack[s]].set([top, below], 2 * x);
      below = Math.min(below, top);
    }
  }
  context.putImageData(image, 0, 0);
  numberBands = () => drawNumbers(bands, width);
  numberBands();
}

// The number of a topic where its band is widest, in each third of a screen or so: wide enough for it on all sides.
let numberBands = () => {};
function drawNumbers(bands, pixels) {
  const { context } = sharp($("numbers"));
  const scale = devicePixelRatio || 1, reach = Math.ceil(9 * scale), parts = Math.max(1, Math.round(pixels / scale / 420)), shown = shownColours();
  context.font = "600 11px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  bands.forEach((band, k) => {
    for (let part = 0; part < parts; part++) {
      let best = { room: 15 * scale };
      for (let x = Math.floor((part * pixels) / parts) + reach; x < ((part + 1) * pixels) / parts - reach; x += 3) {
        let top = 0, below = Infinity;
        for (let by = -reach; by <= reach; by += 3) {
          top = Math.max(top, band[2 * (x + by)]);
          below = Math.min(below, band[2 * (x + by) + 1]);
        }
        if (below - top > best.room) best = { room: below - top, x, y: (top + below) / 2 };
      }
      if (best.x === undefined) continue;
      context.fillStyle = readableOn(rgb(shown[k]));
      context.fillText(String(k + 1), best.x / scale, best.y / scale);
    }
  });
}

// The plot with its labels as SVG: the columns are an image in it.
function structureFigure() {
  const bars = $("bars"), stage = $("stage").getBoundingClientRect(), above = $("group-axis").hidden ? 8 : 24, left = 36;
  const axes = [...document.querySelectorAll("#x-axis span, #group-axis:not([hidden]) span")];
  const lowest = Math.max(stage.bottom, ...axes.map((span) => span.getBoundingClientRect().bottom)) - stage.top;
  const root = svg("svg", { width: stage.width + left, height: above + lowest + 8 }), ink = themed("--muted");
  const text = (x, y, anchor, words, more = {}) => svg("text", { x, y, "text-anchor": anchor, "font-size": "11px", fill: ink, ...more }, words);
  root.append(svg("image", { x: left, y: above, width: stage.width, height: stage.height, href: bars.toDataURL("image/png") }),
    svg("g", { transform: `translate(${left} ${above})` }, recorded($("numbers"), numberBands)),
    ...[["100%", 0.02], ["50%", 0.5], ["0", 1]].map(([words, part]) => text(left - 6, above + 4 + part * (stage.height - 4), "end", words)));
  for (const span of axes) {
    const x = left + (parseFloat(span.style.left) / 100) * stage.width, group = span.parentElement.id === "group-axis";
    const slanted = !group && $("x-axis").classList.contains("slanted"), y = group ? 14 : above + stage.height + 14;
    const angle = parseFloat($("x-axis").style.getPropertyValue("--slant")) || 0;
    root.append(text(x, y, slanted ? "end" : "middle", span.textContent, slanted ? { transform: `rotate(${-angle} ${x} ${y})` } : {}));
  }
  return withKeys(root);
}

// Along a column of numbers or dates, of many samples in view: bars of at least so many that follow each other, and of all that
// have the same value, as the order among them is arbitrary. Null where samples are drawn one by one.
const MOST_SINGLE = 500, BARS = 100;
function meansInView() {
  const column = columnOfOrder(state.order), inView = plot.view[1] - plot.view[0];
  if (!column || column.kind === "text" || inView <= MOST_SINGLE) return null;
  const size = Math.ceil(inView / BARS), bars = [];
  const value = (place) => column.values[plot.sequence[place]];
  for (const block of plot.groups) {
    const starts = [0];
    for (let j = 1; j < block.size; j++) {
      if (j - starts.at(-1) >= size && !Object.is(value(block.first + j), value(block.first + j - 1))) starts.push(j);
    }
    // too few for a bar of their own
    if (starts.length > 1 && block.size - starts.at(-1) < size && !Number.isNaN(value(block.first + block.size - 1))) starts.pop();
    starts.forEach((start, b) => bars.push({ block, start, end: starts[b + 1] ?? block.size }));
  }
  return bars.map(({ block, start, end }) => {
    const parts = new Float64Array(K);
    for (let j = start; j < end; j++) {
      for (let k = 0; k < K; k++) parts[k] += proportion(plot.sequence[block.first + j], k) / (end - start);
    }
    return { from: block.start + start, to: block.start + end, parts };
  });
}
function inBars(bars, from, perPixel) {
  let b = 0; // pixels come from the left
  return (x) => {
    const unit = from + (x + 0.5) * perPixel;
    while (b < bars.length && bars[b].to <= unit) b++;
    return b < bars.length && bars[b].from <= unit ? bars[b].parts : null;
  };
}

// Where columns are wider than a pixel: the sample at the pixel, with a hairline between wide ones.
function single(from, perPixel) {
  const parts = new Float64Array(K);
  const hairline = perPixel < 1 / 9;
  return (x) => {
    const unit = from + (x + 0.5) * perPixel;
    const place = placeAt(unit);
    if (place === null || (hairline && placeAt(unit + perPixel) !== place && place < samples.n - 1)) return null;
    for (let k = 0; k < K; k++) parts[k] = proportion(plot.sequence[place], k);
    return parts;
  };
}

// Where several samples share a pixel: their mean.
function averaged(from, perPixel, width) {
  const sums = new Float64Array(width * K), counts = new Uint32Array(width);
  for (const block of plot.groups) {
    for (let j = 0; j < block.size; j++) {
      const x = Math.floor((block.start + j + 0.5 - from) / perPixel);
      if (x < 0 || x >= width) continue;
      counts[x] += 1;
      const start = plot.sequence[block.first + j] * K;
      for (let k = 0; k < K; k++) sums[x * K + k] += samples.codes[start + k];
    }
  }
  const parts = new Float64Array(K);
  return (x) => {
    if (counts[x] === 0) return null;
    for (let k = 0; k < K; k++) parts[k] = sums[x * K + k] / counts[x] / 65535;
    return parts;
  };
}

// Marks: the sample under the pointer or the keyboard, the one that is open, and the range being dragged.
let marks = null; // context and size, until the canvas changes its size
function drawMarks() {
  marks ??= sharp($("marks"));
  const { context, width, height } = marks;
  context.clearRect(0, 0, width, height);
  const ink = themed("--ink"), surface = themed("--surface");
  if (state.sample !== null) {
    const x = toX(unitOf(plot.place[state.sample]) + 0.5, width);
    context.fillStyle = ink;
    context.strokeStyle = surface;
    context.beginPath();
    context.moveTo(x - 6, 0);
    context.lineTo(x + 6, 0);
    context.lineTo(x, 9);
    context.closePath();
    context.fill();
    context.stroke();
  }
  if (plot.at !== null) {
    const left = toX(unitOf(plot.at), width), wide = Math.max(toX(unitOf(plot.at) + 1, width) - left, 1.5);
    context.lineWidth = 3;
    context.strokeStyle = surface;
    context.strokeRect(left - 2, -4, wide + 4, height + 8);
    context.lineWidth = 1.5;
    context.strokeStyle = ink;
    context.strokeRect(left - 1, -4, wide + 2, height + 8);
  }
  if (selected) { // on the map of samples
    context.fillStyle = ink;
    for (const i of selected) context.fillRect(toX(unitOf(plot.place[i]), width), height - 5, Math.max(1, toX(1, width) - toX(0, width)), 5);
  }
  drawScatterMarks();
  if (plot.drag?.moved) {
    const [a, b] = [plot.drag.from, plot.drag.to].sort((one, other) => one - other);
    context.fillStyle = `rgb(${channels(surface).join(" ")} / 0.6)`;
    context.fillRect(0, 0, a, height);
    context.fillRect(b, 0, width - b, height);
  }
}

function drawStructure() {
  drawBars();
  drawMarks();
  drawAxis();
}

function fillOrders() {
  const option = (value, text) => el("option", { value }, text);
  const byColumn = columns.map((column) => option(`column:${column.name}`, column.name));
  $("order").append(option("similarity", "similarity"), option("file", "as in the file"));
  if (byColumn.length) $("order").append(el("optgroup", { label: "column" }, ...byColumn));
  $("order").append(el("optgroup", { label: "topic" }, ...page.order.map((k) => option(`topic:${k + 1}`, ""))));
  const groups = columns.filter((column) => column.groups);
  $("group").append(option("", "none"), ...groups.map((column) => option(column.name, column.name)));
  $("group-label").hidden = groups.length === 0;
  $("order").addEventListener("change", (event) => update({ order: event.target.value }));
  $("group").addEventListener("change", (event) => update({ group: event.target.value }));
}

function showStructure() {
  fillOrders();
  listenToStructure();
  const searched = columns.filter((column) => column.kind !== "number");
  suggesting($("sample-search"), samples.names, (i) => {
    update({ sample: i });
    if (zoomed()) zoom(unitOf(plot.place[i]) - 10, unitOf(plot.place[i]) + 11);
  }, (i) => searched.filter((column) => !Number.isNaN(column.values[i])).map((column) => valueText(column, column.values[i])));
  $("structure-note").textContent = samples.n < N_ALL ? page.notes[0] : "";
  const row = (show) => (place) => [samples.names[plot.sequence[place]], ...page.order.map((k) => show(proportion(plot.sequence[place], k)))];
  const refill = unfolding($("structure-table"), () => ({ heads: ["sample", ...page.order.map((k) => `topic ${k + 1}`)], n: samples.n,
    row: row(percent), numbers: row((part) => part.toFixed(6)) }));
  corner($("structure").querySelector(".title-row > .row"), "samples", structureFigure);
  new ResizeObserver(() => { marks = null; drawStructure(); }).observe($("stage"));
  views.push((keys) => {
    if (keys.has("names")) for (const option of $("order").querySelectorAll("option[value^='topic:']")) {
      const k = Number(option.value.slice(6)) - 1;
      option.textContent = `${k + 1} ${nameOf(k)}`;
    }
    $("order").value = state.order;
    $("group").value = state.group;
    if (keys.has("order") || keys.has("group")) {
      arrange();
      $("zoom-out").hidden = true;
      refill();
    }
    if (["order", "group", "topic", "theme"].some((key) => keys.has(key))) {
      drawBars();
      drawAxis();
    }
    drawMarks();
    const by = $("order").selectedOptions[0]?.textContent, within = state.group ? ` within ${state.group}` : "";
    $("stage").setAttribute("aria-label",
      `Proportions of ${counted(K, "topic")} in ${counted(samples.n, "sample")}, by ${by}${within}. Use the arrow keys to move.`);
  });
}
