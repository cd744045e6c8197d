// What figures share: files of them and of tables from their corners, pointer and keyboard on a canvas, and twelve items at a time.

const SIZE_OF_PAGE = 12;

// A drawing context that writes SVG instead of pixels, with what the figures of this page use.
let recording = null; // instead of the canvas, while a figure is written to a file
function recorder(width, height) {
  const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
  const short = (number) => Number(number.toFixed(2));
  const hex = (colour) => `#${channels(colour).map((part) => Math.round(part).toString(16).padStart(2, "0")).join("")}`;
  const measuring = document.createElement("canvas").getContext("2d");
  const anchors = { left: "start", center: "middle", right: "end" };
  let path = "";
  const context = {
    root, fillStyle: "#000000", strokeStyle: "#000000", lineWidth: 1, globalAlpha: 1, font: "11px sans-serif", textAlign: "left", textBaseline: "alphabetic",
    beginPath() { path = ""; },
    moveTo(x, y) { path += `M${short(x)} ${short(y)}`; },
    lineTo(x, y) { path += `L${short(x)} ${short(y)}`; },
    arc(x, y, r) { path += `M${short(x - r)} ${short(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`; }, // whole circles
    closePath() { path += "Z"; },
    fill() { add("path", { d: path, fill: hex(this.fillStyle) }); },
    stroke() { add("path", { d: path, ...line() }); },
    fillRect(x, y, width, height) { add("rect", { ...box(x, y, width, height), fill: hex(this.fillStyle) }); },
    strokeRect(x, y, width, height) { add("rect", { ...box(x, y, width, height), ...line() }); },
    clearRect() {},
    measureText(text) { measuring.font = this.font; return measuring.measureText(text); },
    fillText(text, x, y) {
      const middle = this.textBaseline === "middle" ? { "dominant-baseline": "central" } : {};
      const size = this.font.match(/[\d.]+px/)[0];
      add("text", { x: short(x), y: short(y), fill: hex(this.fillStyle), "font-size": size, "text-anchor": anchors[this.textAlign], ...middle }, text);
    },
  };
  const box = (x, y, width, height) => ({ x: short(x), y: short(y), width: short(width), height: short(height) });
  const line = () => ({ fill: "none", stroke: hex(context.strokeStyle), "stroke-width": context.lineWidth });
  const add = (tag, properties, ...children) =>
    root.append(svg(tag, context.globalAlpha < 1 ? { ...properties, opacity: context.globalAlpha } : properties, ...children));
  return context;
}
// A canvas as SVG: what `draw` draws on it.
function recorded(canvas, draw) {
  const { width, height } = canvas.getBoundingClientRect();
  recording = recorder(width, height);
  try {
    draw();
    return recording.root;
  } finally {
    recording = null;
  }
}
// An <svg> of the page with the styles that it has there.
const STYLES = ["fill", "stroke", "stroke-width", "stroke-linejoin", "opacity", "font-size", "font-weight", "text-anchor", "dominant-baseline", "paint-order", "stroke-dasharray"];
function copied(node) {
  const copy = node.cloneNode(true), { width, height } = node.viewBox.baseVal;
  const [from, to] = [node, copy].map((one) => [...one.querySelectorAll("*")]);
  from.forEach((one, i) => STYLES.forEach((name) => to[i].setAttribute(name, getComputedStyle(one)[name])));
  for (const [name, value] of Object.entries({ width, height })) copy.setAttribute(name, value);
  return copy;
}
// Several of them in columns, as a page of panels shows them.
function gathered(nodes, names) {
  const sizes = nodes.map((node) => node.viewBox.baseVal), columns = Math.min(3, nodes.length);
  const wide = Math.max(...sizes.map(({ width }) => width)) + 16, tall = Math.max(...sizes.map(({ height }) => height)) + 34;
  const root = svg("svg", { width: columns * wide, height: Math.ceil(nodes.length / columns) * tall });
  nodes.forEach((node, i) => {
    const [x, y] = [(i % columns) * wide, Math.floor(i / columns) * tall], copy = copied(node);
    for (const [name, value] of Object.entries({ x, y: y + 22, overflow: "visible" })) copy.setAttribute(name, value);
    root.append(svg("text", { x, y: y + 15, "font-size": "12px", fill: themed("--ink") }, names[i]), copy);
  });
  return root;
}
// The colours of topics and their names below a figure, which has no list of topics beside it in a file.
function withKeys(root, topics = page.order) {
  const width = Number(root.getAttribute("width")), height = Number(root.getAttribute("height"));
  const columns = Math.max(1, Math.floor(width / 230)), ink = themed("--ink");
  topics.forEach((k, place) => {
    const x = (place % columns) * (width / columns), y = height + 18 + 20 * Math.floor(place / columns);
    const name = `${k + 1} ${nameOf(k)}`, most = Math.floor((width / columns - 30) / 6.2);
    root.append(svg("rect", { x, y, width: 14, height: 14, rx: 3, fill: colourOf(k) }),
      svg("text", { x: x + 20, y: y + 11, "font-size": "11px", fill: ink }, name.length > most ? `${name.slice(0, most - 1)}…` : name));
  });
  root.setAttribute("height", height + 24 + 20 * Math.ceil(topics.length / columns));
  root.removeAttribute("viewBox");
  return root;
}
// Buttons in the corner of a figure that write it to a file; `make` gives it as an <svg> with a width and a height.
function corner(place, name, make) {
  const margin = 12;
  async function write(kind) {
    const figure = make(), [width, height] = ["width", "height"].map((side) => Number(figure.getAttribute(side)) + 2 * margin);
    const inside = svg("g", { transform: `translate(${margin} ${margin})` }, figure);
    const sheet = svg("rect", { width, height, fill: themed("--surface") });
    const root = svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "system-ui, sans-serif" }, sheet, inside);
    const text = new XMLSerializer().serializeToString(root);
    if (kind === "svg") return download(`${name}.svg`, text, "image/svg+xml");
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await image.decode();
    const canvas = el("canvas", { width: 2 * width, height: 2 * height }), context = canvas.getContext("2d");
    context.scale(2, 2);
    context.drawImage(image, 0, 0);
    canvas.toBlob((blob) => download(`${name}.png`, blob, "image/png"));
  }
  const about = (kind) => ({ "aria-label": `Download figure ${name} as ${kind}`, title: `Download as ${kind}` });
  place.append(el("span", { class: "corner controls" },
    button("small quiet", "SVG", () => write("svg"), about("SVG")), button("small quiet", "PNG", () => write("png"), about("PNG"))));
}

// A table of texts: the first cell of each row heads it.
function grid(heads, rows) {
  // words are set to the left, numbers to the right
  const words = heads.map((_, column) => rows.some((cells) => /\p{L}{2}/u.test(cells[column])));
  const cell = (tag, text, column, more = {}) => el(tag, { ...more, ...(words[column] ? { class: "words" } : {}) }, text);
  const row = ([first, ...others]) => el("tr", {}, cell("th", first, 0, { scope: "row" }), ...others.map((text, i) => cell("td", text, i + 1)));
  return el("table", { class: "grid" },
    el("thead", {}, el("tr", {}, ...heads.map((head, column) => cell("th", head, column, { scope: "col" })))), el("tbody", {}, ...rows.map(row)));
}
const scrolling = (label, ...children) => el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, ...children);
// Fill a <details> when it is opened, and again when what it shows has changed: `table()` has heads, the number n of rows, each of
// them as texts, and for files, where they differ, as numbers.
function unfolding(details, table) {
  const name = details.id.replace("-table", ""), label = details.querySelector("summary").textContent;
  let shown = 200;
  const place = scrolling(label);
  const texts = ({ n, row }, most = n) => Array.from({ length: Math.min(n, most) }, (_, i) => row(i));
  const save = button("small quiet", "CSV", () => {
    const { heads, n, row, numbers = row } = table();
    saveTable(name, heads, texts({ n, row: numbers }));
  }, { "aria-label": `Download ${label} as CSV`, title: "Download as CSV" });
  details.append(el("span", { class: "corner controls" }, save), place);
  const fill = () => {
    if (!details.open) return;
    const all = table(), more = button("small", "200 more", () => { shown += 200; fill(); });
    place.replaceChildren(grid(all.heads, texts(all, shown)), shown < all.n ? more : "");
  };
  details.addEventListener("toggle", fill);
  return fill;
}
const saveTable = (name, heads, rows) =>
  download(`${name}.csv`, [heads, ...rows].map((cells) => cells.map((text) => cell(String(text).replace("−", "-"))).join(",")).join("\n") + "\n");

// A canvas that is read by pointer and by keyboard: `at(x, y)` is the item there, `step(item, right, down)` the next one from an item
// or from null; `choose` is called when the item changes, `open` by click or Enter, `tip` gives what a tip has. Returns a function
// that forgets the item.
function pointed(stage, { at, step, choose, open = () => {}, tip = null }) {
  let current = null;
  const set = (next) => { if (String(next) !== String(current)) choose((current = next)); };
  stage.addEventListener("pointermove", (event) => {
    const box = stage.getBoundingClientRect();
    set(at(event.clientX - box.left, event.clientY - box.top, box));
    if (current === null) hideTip();
    else if (tip) showTip(event.clientX, event.clientY, ...tip(current));
  });
  for (const end of ["pointerleave", "blur"]) stage.addEventListener(end, () => { set(null); hideTip(); });
  stage.addEventListener("click", () => current !== null && open(current));
  stage.addEventListener("keydown", (event) => {
    const by = { ArrowRight: [1, 0], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowUp: [0, -1] }[event.key];
    if (event.key === "Enter" && current !== null) open(current);
    if (event.key === "Escape") set(null);
    if (!by) return;
    event.preventDefault();
    set(step(current, ...by));
  });
  return () => (current = null);
}
// The next of n items in a row, by the arrow keys.
const along = (n) => (item, right, down) => (item === null ? 0 : Math.min(n() - 1, Math.max(0, item + right + down)));

// A <select> of topics: the one in focus, or the one that a section shows until then. Returns what shows the names of now.
function choosingTopics(select, topic) {
  select.append(...page.order.map((k) => el("option", { value: k })));
  select.addEventListener("change", () => update({ topic: Number(select.value) }));
  return () => {
    for (const option of select.options) option.textContent = `${Number(option.value) + 1} ${nameOf(Number(option.value))}`;
    select.value = String(topic());
  };
}

// Buttons that turn the pages of a list of n items; nothing where one page holds them.
function pager(what, n, first, turn) {
  if (n <= SIZE_OF_PAGE) return null;
  const last = Math.min(n, first + SIZE_OF_PAGE);
  const to = (place, text, label) => button("small", text, () => turn(place), { disabled: place < 0 || place >= n, "aria-label": `${label} ${what}` });
  return el("div", { class: "row controls pager" }, to(first - SIZE_OF_PAGE, "←", "Previous"), to(first + SIZE_OF_PAGE, "→", "Next"),
    `${first + 1}–${last} of ${n}`);
}
// A panel per topic, a page of them, and the buttons for the others. The topic in focus comes first.
function paged(what, first, panel, turn) {
  const order = state.topic === null ? listed() : [state.topic, ...listed().filter((k) => k !== state.topic)];
  const shown = onPaper ? order : order.slice(first, first + SIZE_OF_PAGE);
  return [el("div", { class: "panels" }, ...shown.map(panel)), onPaper ? "" : pager(what, K, first, turn) ?? ""];
}
function cornerOfPanels(place, name, panels) {
  corner(place, name, () => {
    const figures = [...panels.querySelectorAll("figure")];
    return gathered(figures.map((figure) => figure.querySelector("svg")), figures.map((figure) => {
      const k = Number(figure.dataset.topic) - 1;
      return `${k + 1} ${nameOf(k)}`.slice(0, 44);
    }));
  });
}

// Lines of means with bands of their intervals: rows have `at`, `mean`, and `low` and `high` or null; ticks are places and texts.
const svgText = (x, y, anchor, words) => svg("text", { x, y, "text-anchor": anchor }, words);
const tickPercent = (part) => `${Number((100 * part).toPrecision(3))}%`;
const reach = (rows) => Math.min(1, 1.06 * Math.max(1e-9, ...rows.map(({ mean, high }) => Math.max(mean, high ?? 0))));
function trend(lines, ticks, told) {
  const width = 300, height = 150, edge = { left: 40, right: 14, top: 8, bottom: 20 }, rows = lines.flatMap((line) => line.rows);
  const top = reach(rows), values = rows.map(({ at }) => at), [least, most] = [Math.min(...values), Math.max(...values)];
  const x = (at) => edge.left + ((at - least) / (most - least || 1)) * (width - edge.left - edge.right);
  const y = (part) => edge.top + (1 - Math.max(0, part) / top) * (height - edge.top - edge.bottom), parts = [];
  for (const tick of roundTicks(0, top, 4)) {
    parts.push(svg("line", { class: "grid-line", x1: edge.left, x2: width - edge.right, y1: y(tick), y2: y(tick) }),
      svgText(edge.left - 6, y(tick) + 4, "end", tickPercent(tick)));
  }
  for (const [at, text] of ticks) parts.push(svgText(x(at), height - 5, "middle", text));
  for (const { rows, colour } of lines) {
    const at = (row, part) => `${x(row.at).toFixed(1)},${y(part).toFixed(1)}`;
    const band = (known) => [...known.map((row) => at(row, row.high)), ...known.map((row) => at(row, row.low)).reverse()].join(" ");
    const known = runs(rows.map(({ low }) => Number(low !== null))).map(([first, last]) => rows.slice(first, last + 1));
    parts.push(...known.map((some) => svg("polygon", { class: "band", points: band(some), fill: colour })),
      svg("polyline", { class: "trend", points: rows.map((row) => at(row, row.mean)).join(" "), stroke: colour }),
      ...rows.map((row) => svg("circle", { cx: x(row.at), cy: y(row.mean), r: rows.length > 24 ? 2 : 3.2, fill: colour }, svg("title", {}, told(row)))));
  }
  return svg("svg", { viewBox: `0 0 ${width} ${height}` }, ...parts);
}
