// The Structure plot: one thin column a sample. Columns are drawn once an order, straight into pixels;
// marks for the pointer, the keyboard and the zoom lie on a canvas above, so that hovering redraws next to nothing.

const plot = { sequence: null, groups: [], units: 1, view: [0, 1], at: null, drag: null };

// Samples in the chosen order. Along the axis each has width 1, and groups a gap between them.
function arrange() {
  const n = samples.n;
  const group = state.group ? columnNamed(state.group) : null;
  const groupOf = group ? group.values : null;
  const keys = orderKeys();
  const last = (value) => (Number.isNaN(value) ? Infinity : value);
  plot.sequence = Uint32Array.from({ length: n }, (_, i) => i).sort((a, b) => {
    if (groupOf) {
      const [one, other] = [last(groupOf[a]), last(groupOf[b])];
      if (one !== other) return one - other;
    }
    return last(keys[a]) === last(keys[b]) ? samples.rank[a] - samples.rank[b] : last(keys[a]) - last(keys[b]);
  });
  plot.groups = [];
  plot.sequence.forEach((sample, place) => {
    const value = groupOf ? last(groupOf[sample]) : 0;
    const current = plot.groups.at(-1);
    if (current && current.value === value) current.size += 1;
    else plot.groups.push({ value, label: group ? valueText(group, groupOf[sample]) : "", first: place, size: 1 });
  });
  const gap = plot.groups.length > 1 ? n / Math.max(250, 10 * plot.groups.length) : 0;
  plot.groups.forEach((block, g) => { block.start = block.first + g * gap; });
  plot.units = n + gap * (plot.groups.length - 1);
  plot.place = new Uint32Array(n);
  plot.sequence.forEach((sample, place) => { plot.place[sample] = place; });
  plot.view = [0, plot.units];
  plot.at = null;
}

function orderKeys() {
  if (state.order === "similarity") return samples.rank;
  if (state.order === "file") return Uint32Array.from({ length: samples.n }, (_, i) => i);
  const topic = whole(state.order.replace(/^topic:/, ""), K);
  if (state.order.startsWith("topic:")) return Float64Array.from({ length: samples.n }, (_, i) => -samples.codes[i * K + topic]);
  return columnNamed(state.order.slice("column:".length)).values;
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

function drawBars() {
  const canvas = $("bars");
  const { context } = sharp(canvas);
  const { width, height } = canvas;
  const [from, to] = plot.view;
  const perPixel = (to - from) / width;
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const little = shownColours().map(([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r);
  const stack = stackOrder();
  const column = perPixel > 1 ? averaged(from, perPixel, width) : single(from, perPixel);
  for (let x = 0; x < width; x++) {
    const parts = column(x);
    if (parts === null) continue;
    let sum = 0, below = height;
    for (let s = 0; s < K; s++) {
      sum += parts[stack[s]];
      const top = s === K - 1 ? 0 : Math.max(0, Math.round(height * (1 - sum)));
      for (let y = top; y < below; y++) pixels[y * width + x] = little[stack[s]];
      below = Math.min(below, top);
    }
  }
  context.putImageData(image, 0, 0);
}

// Where columns are wider than a pixel: the sample at the pixel, with a hairline between wide ones.
function single(from, perPixel) {
  const parts = new Float64Array(K);
  const hairline = perPixel < 1 / 9;
  return (x) => {
    const unit = from + (x + 0.5) * perPixel;
    const place = placeAt(unit);
    if (place === null || (hairline && placeAt(unit + perPixel) !== place && place < samples.n - 1)) return null;
    const start = plot.sequence[place] * K;
    for (let k = 0; k < K; k++) parts[k] = samples.codes[start + k] / 65535;
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
  const [from, to] = plot.view;
  const toX = (unit) => ((unit - from) / (to - from)) * width;
  if (state.sample !== null) {
    const x = toX(unitOf(plot.place[state.sample]) + 0.5);
    context.fillStyle = markColours.ink;
    context.strokeStyle = markColours.surface;
    context.beginPath();
    context.moveTo(x - 6, 0);
    context.lineTo(x + 6, 0);
    context.lineTo(x, 9);
    context.closePath();
    context.fill();
    context.stroke();
  }
  if (plot.at !== null) {
    const left = toX(unitOf(plot.at)), wide = Math.max(width / (to - from), 1.5);
    context.lineWidth = 3;
    context.strokeStyle = markColours.surface;
    context.strokeRect(left - 2, -4, wide + 4, height + 8);
    context.lineWidth = 1.5;
    context.strokeStyle = markColours.ink;
    context.strokeRect(left - 1, -4, wide + 2, height + 8);
  }
  if (plot.drag?.moved) {
    const [a, b] = [plot.drag.from, plot.drag.to].sort((one, other) => one - other);
    context.fillStyle = markColours.veil;
    context.fillRect(0, 0, a, height);
    context.fillRect(b, 0, width - b, height);
  }
}
let markColours = {};
function learnMarkColours() {
  const surface = channels(themed("--surface"));
  markColours = { ink: themed("--ink"), surface: rgb(surface), veil: `rgb(${surface.join(" ")} / 0.6)` };
}

function drawAxis() {
  const axis = $("x-axis");
  axis.replaceChildren();
  axis.classList.remove("slanted");
  axis.style.height = "";
  const width = axis.clientWidth;
  const [from, to] = plot.view;
  const toX = (unit) => ((unit - from) / (to - from)) * width;
  const labels = state.group ? groupLabels(from, to, toX) : tickLabels(toX, width);
  const spans = labels.map(({ x, text, title }) => {
    const span = el("span", { title }, text);
    span.style.left = `${(100 * x) / width}%`;
    return span;
  });
  axis.append(...spans);
  if (!spans.length) return;
  const sizes = spans.map((span) => span.offsetWidth);
  const level = labels.every(({ x }, i) =>
    (i === 0 || x - labels[i - 1].x >= (sizes[i] + sizes[i - 1]) / 2 + 8) && x - sizes[i] / 2 > -40 && x + sizes[i] / 2 < width + 16);
  if (level || !state.group) {
    axis.style.height = "1.7rem";
    return;
  }
  axis.classList.add("slanted");
  const kept = [];
  for (const i of labels.map((_, i) => i).sort((a, b) => labels[b].size - labels[a].size)) {
    const fits = kept.every((j) => Math.abs(labels[i].x - labels[j].x) >= 15);
    if (fits) kept.push(i);
    else spans[i].remove();
  }
  axis.style.height = `${Math.ceil(Math.max(...kept.map((i) => spans[i].offsetWidth)) * Math.sin((38 * Math.PI) / 180) + 20)}px`;
}

function groupLabels(from, to, toX) {
  return plot.groups
    .map((block) => ({ block, a: Math.max(block.start, from), b: Math.min(block.start + block.size, to) }))
    .filter(({ a, b }) => b > a)
    .map(({ block, a, b }) => ({ x: toX((a + b) / 2), size: b - a, text: block.label, title: `${block.label}: ${counted(block.size, "sample")}` }));
}

// Under a column of numbers or dates: round values at the first sample that reaches them.
function tickLabels(toX, width) {
  const column = state.order.startsWith("column:") ? columnNamed(state.order.slice("column:".length)) : null;
  if (!column || column.kind === "text") return [];
  const [first, last] = [Math.max(0, Math.ceil(plot.view[0])), Math.min(samples.n, Math.floor(plot.view[1]))];
  const most = Math.max(2, Math.floor(width / 80));
  const labels = [];
  const known = [];
  for (let place = first; place < last; place++) if (!Number.isNaN(column.values[plot.sequence[place]])) known.push(place);
  if (!known.length) return [];
  const value = (place) => column.values[plot.sequence[place]];
  if (column.kind === "date") {
    for (let t = 0; t < most; t++) {
      const place = known[Math.floor(((t + 0.5) * known.length) / most)];
      labels.push({ x: toX(place + 0.5), text: valueText({ ...column, daily: true }, value(place)) });
    }
    return apart(labels, 76);
  }
  const [low, high] = [value(known[0]), value(known.at(-1))];
  for (const tick of roundTicks(low, high, most)) {
    const place = known.find((at) => value(at) >= tick);
    if (place !== undefined) labels.push({ x: toX(place + 0.5), text: minus(String(tick)) });
  }
  return apart(labels, 44);
}
function apart(labels, least) {
  return labels.filter((label, i) => { label.keep = i === 0 || label.x - labels.slice(0, i).findLast((other) => other.keep).x >= least; return label.keep; });
}
function roundTicks(low, high, most) {
  if (!(high > low)) return [low];
  const raw = (high - low) / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((width) => width >= raw);
  const ticks = [];
  for (let j = Math.ceil(low / step); j * step <= high + 1e-9 * step; j++) ticks.push(Number((j * step).toPrecision(10)));
  return ticks;
}

function sampleTip(i) {
  const about = columns.slice(0, 6).map((column) => `${column.name}: ${valueText(column, column.values[i])}`);
  return [
    el("b", {}, samples.names[i]),
    ...about.map((line) => el("div", { class: "about" }, line)),
    topicLines(largestTopics(i, 3).map((k) => ({ k, part: proportion(i, k) }))),
  ];
}
const sampleSentence = (i) =>
  [samples.names[i], ...largestTopics(i, 3).map((k) => `topic ${k + 1}, ${nameOf(k)}: ${percent(proportion(i, k))}`)].join("; ");

function zoom(from, to) {
  const least = Math.min(plot.units, 4);
  let width = Math.min(plot.units, Math.max(least, to - from));
  const start = Math.min(Math.max(0, (from + to - width) / 2), plot.units - width);
  plot.view = [start, start + width];
  $("zoom-out").hidden = width >= plot.units;
  drawBars();
  drawMarks();
  drawAxis();
}
const zoomOut = () => zoom(0, plot.units);
const zoomed = () => plot.view[1] - plot.view[0] < plot.units - 1e-9;

// Walk to a place by keyboard: keep it in view, and say it.
function walkTo(place) {
  plot.at = Math.min(Math.max(place, 0), samples.n - 1);
  const unit = unitOf(plot.at), [from, to] = plot.view;
  if (unit < from || unit + 1 > to) {
    const shift = unit < from ? unit - from : unit + 1 - to;
    zoom(from + shift, to + shift);
  } else drawMarks();
  const box = $("stage").getBoundingClientRect();
  const x = box.left + ((unit + 0.5 - plot.view[0]) / (plot.view[1] - plot.view[0])) * box.width;
  showTip(x, box.top + 40, ...sampleTip(plot.sequence[plot.at]));
  $("said").textContent = sampleSentence(plot.sequence[plot.at]);
}

function listenToStructure() {
  const stage = $("stage");
  let opening = 0;
  const unitAt = (event) => {
    const box = stage.getBoundingClientRect();
    return plot.view[0] + ((event.clientX - box.left) / box.width) * (plot.view[1] - plot.view[0]);
  };
  const offset = (event) => event.clientX - stage.getBoundingClientRect().left;
  stage.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    plot.drag = { from: offset(event), to: offset(event), start: unitAt(event), moved: false };
    stage.setPointerCapture(event.pointerId);
  });
  stage.addEventListener("pointermove", (event) => {
    if (plot.drag) {
      plot.drag.to = offset(event);
      plot.drag.moved ||= Math.abs(plot.drag.to - plot.drag.from) > 5;
    }
    const place = plot.drag?.moved ? null : placeAt(unitAt(event));
    if (place !== plot.at || plot.drag) {
      plot.at = place;
      drawMarks();
    }
    if (place === null) hideTip();
    else showTip(event.clientX, event.clientY, ...sampleTip(plot.sequence[place]));
  });
  stage.addEventListener("pointerup", (event) => {
    const { drag } = plot;
    plot.drag = null;
    if (drag?.moved) zoom(...[drag.start, unitAt(event)].sort((a, b) => a - b));
    else if (drag) {
      const place = placeAt(unitAt(event));
      clearTimeout(opening);
      // where a second click may follow to zoom out, wait for it
      if (place !== null) opening = setTimeout(() => update({ sample: plot.sequence[place] }), zoomed() ? 260 : 0);
    }
  });
  stage.addEventListener("pointercancel", () => { plot.drag = null; drawMarks(); });
  stage.addEventListener("dblclick", () => { clearTimeout(opening); zoomOut(); });
  const leave = () => {
    plot.at = null;
    drawMarks();
    hideTip();
  };
  stage.addEventListener("pointerleave", leave);
  stage.addEventListener("blur", leave);
  stage.addEventListener("keydown", (event) => {
    const at = plot.at ?? (event.key === "ArrowLeft" ? samples.n : -1);
    const [from, to] = plot.view, middle = plot.at === null ? (from + to) / 2 : unitOf(plot.at) + 0.5;
    const stride = event.shiftKey ? 10 : 1;
    const actions = {
      ArrowRight: () => walkTo(at + stride),
      ArrowLeft: () => walkTo(at - stride),
      Home: () => walkTo(0),
      End: () => walkTo(samples.n - 1),
      Enter: () => plot.at !== null && update({ sample: plot.sequence[plot.at] }),
      Escape: () => (zoomed() ? zoomOut() : leave()),
      "+": () => zoom(middle - (to - from) / 4, middle + (to - from) / 4),
      "-": () => zoom(middle - (to - from), middle + (to - from)),
    };
    const action = actions[event.key === "=" ? "+" : event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  $("zoom-out").addEventListener("click", zoomOut);
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
  let refill = () => {};
  fillOrders();
  listenToStructure();
  suggesting($("sample-search"), samples.names, (i) => {
    update({ sample: i });
    if (zoomed()) zoom(unitOf(plot.place[i]) - 10, unitOf(plot.place[i]) + 11);
  });
  $("structure-note").textContent = samples.n < N_ALL ? page.notes[0] : "";
  let shown = 200;
  refill = unfolding("structure-table", () => {
    const heads = ["sample", ...page.order.map((k) => `topic ${k + 1}`)];
    const rows = [...plot.sequence.slice(0, shown)].map((i) => [samples.names[i], ...page.order.map((k) => percent(proportion(i, k)))]);
    const more = shown < samples.n ? el("button", { type: "button", onclick: () => { shown += 200; refill(); } }, "200 more") : null;
    return el("div", {}, grid(heads, rows), more);
  });
  new ResizeObserver(() => { marks = null; drawBars(); drawMarks(); drawAxis(); }).observe($("stage"));
  views.push((keys) => {
    if (keys.has("names")) for (const option of $("order").querySelectorAll("option[value^='topic:']")) {
      const k = Number(option.value.slice(6)) - 1;
      option.textContent = `${k + 1} ${nameOf(k)}`;
    }
    $("order").value = state.order;
    $("group").value = state.group;
    if (keys.has("theme")) learnMarkColours();
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
    $("stage").setAttribute("aria-label",
      `Proportions of ${counted(K, "topic")} in ${counted(samples.n, "sample")}, ordered by ${$("order").selectedOptions[0]?.textContent}` +
      (state.group ? `, grouped by ${state.group}` : "") + ". Use the arrow keys to walk over samples.");
  });
}
