// What stands under the Structure plot: names of samples where they are few, names of groups, or round values of a column.

const MOST_NAMES = 60;

function drawAxis() {
  const axis = $("x-axis");
  axis.replaceChildren();
  axis.classList.remove("slanted");
  axis.style.height = "";
  const width = axis.clientWidth;
  const names = sampleLabels(width);
  const labels = names ?? (state.group ? groupLabels(width) : tickLabels(width));
  const placed = ({ x, text, title }) => {
    const span = el("span", { title }, text);
    span.style.left = `${(100 * x) / width}%`;
    return span;
  };
  const spans = labels.map(placed);
  axis.append(...spans);
  $("group-axis").hidden = !(names && state.group);
  $("group-axis").replaceChildren(...(names && state.group ? groupLabels(width).map(placed) : []));
  if (!spans.length) return;
  const sizes = spans.map((span) => span.offsetWidth);
  const level = labels.every(({ x }, i) => {
    const clear = i === 0 || x - labels[i - 1].x >= (sizes[i] + sizes[i - 1]) / 2 + 8;
    return clear && x - sizes[i] / 2 > -40 && x + sizes[i] / 2 < width + 16;
  });
  if (level || !(state.group || names)) {
    axis.style.height = "1.7rem";
    return;
  }
  const slant = names ? 60 : 38; // degrees: names are many, and long
  axis.style.setProperty("--slant", slant);
  axis.classList.add("slanted");
  const kept = [];
  for (const i of labels.map((_, i) => i).sort((a, b) => labels[b].size - labels[a].size)) {
    const fits = kept.every((j) => Math.abs(labels[i].x - labels[j].x) >= 15);
    if (fits) kept.push(i);
    else spans[i].remove();
  }
  const longest = Math.max(...kept.map((i) => spans[i].offsetWidth));
  axis.style.height = `${Math.ceil(longest * Math.sin((slant * Math.PI) / 180)) + 20}px`;
}

// Of the samples in view, if they are few; along a column with its value. Zooming in along a column keeps round values.
function sampleLabels(width) {
  const column = columnOfOrder(state.order), scaled = column && column.kind !== "text";
  const [from, to] = plot.view;
  const inView = [];
  for (let place = 0; place < samples.n; place++) {
    const unit = unitOf(place) + 0.5;
    if (unit > from && unit < to) inView.push({ place, unit });
    if (inView.length > MOST_NAMES) return null;
  }
  if (!page.samples.named || (scaled && samples.n > MOST_NAMES)) return null;
  return inView.map(({ place, unit }) => {
    const i = plot.sequence[place], value = scaled ? ` · ${valueText(column, column.values[i])}` : "";
    return { x: toX(unit, width), size: 1, text: samples.names[i] + value, title: samples.names[i] + value };
  });
}

function groupLabels(width) {
  const [from, to] = plot.view;
  return plot.groups
    .map((block) => ({ block, a: Math.max(block.start, from), b: Math.min(block.start + block.size, to) }))
    .filter(({ a, b }) => b > a)
    .map(({ block: { label, size }, a, b }) => {
      return { x: toX((a + b) / 2, width), size: b - a, text: label, title: `${label}: ${counted(size, "sample")}` };
    });
}

// Under a column of numbers or dates: round values at the first sample that reaches them.
function tickLabels(width) {
  const column = columnOfOrder(state.order);
  if (!column || column.kind === "text") return [];
  const [first, last] = [Math.max(0, Math.ceil(plot.view[0])), Math.min(samples.n, Math.floor(plot.view[1]))];
  const most = Math.max(2, Math.floor(width / 80));
  const value = (place) => column.values[plot.sequence[place]];
  const labels = [], known = [];
  for (let place = first; place < last; place++) if (!Number.isNaN(value(place))) known.push(place);
  if (!known.length) return [];
  if (column.kind === "date") {
    for (let t = 0; t < most; t++) {
      const place = known[Math.floor(((t + 0.5) * known.length) / most)];
      labels.push({ x: toX(place + 0.5, width), text: valueText({ ...column, daily: true }, value(place)) });
    }
    return apart(labels, 76);
  }
  const [low, high] = [value(known[0]), value(known.at(-1))];
  const whole = known.every((place) => Number.isInteger(value(place)));
  for (const tick of roundTicks(low, high, whole ? Math.min(most, high - low) : most)) {
    const place = known.find((at) => value(at) >= tick);
    if (place !== undefined) labels.push({ x: toX(place + 0.5, width), text: minus(String(tick)) });
  }
  return apart(labels, 44);
}
// The labels, from the left, that leave so many pixels between them.
function apart(labels, pixels) {
  const kept = [];
  for (const label of labels) if (!kept.length || label.x - kept.at(-1).x >= pixels) kept.push(label);
  return kept;
}
// Round numbers from `low` to `high`, about `most` of them at most.
function roundTicks(low, high, most) {
  if (!(high > low)) return [low];
  const raw = (high - low) / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((width) => width >= raw);
  const ticks = [];
  for (let j = Math.ceil(low / step); j * step <= high + 1e-9 * step; j++) ticks.push(Number((j * step).toPrecision(10)));
  return ticks;
}
