// How topics lie to each other: places in the plane, and a heat map of their distances.

const distances = uint16(page.map.distances);
const distance = (a, b) => distances[a * K + b] / 65535;

function showMap() {
  if (K === 1) {
    $("map").hidden = true;
    return;
  }
  follow(["topic", "names", "theme", "print"], drawPlaces);
  showHeat();
  unfolding("map-table", () => grid(["topic", ...page.order.map((k) => String(k + 1))],
    page.order.map((a) => [`${a + 1} ${nameOf(a)}`, ...page.order.map((b) => distance(a, b).toFixed(2))])));
}

function drawPlaces() {
  const size = 400, edge = 46;
  const [xs, ys] = [0, 1].map((axis) => page.map.places.map((place) => place[axis]));
  const span = Math.max(Math.max(...xs) - Math.min(...xs), Math.max(...ys) - Math.min(...ys), 1e-9);
  const at = (values, value) => size / 2 + ((value - (Math.max(...values) + Math.min(...values)) / 2) / span) * (size - 2 * edge);
  const largest = Math.max(...page.topics.map(({ share }) => share));
  const full = Math.max(14, Math.min(40, 130 / Math.sqrt(K)));
  const smallLast = [...page.order].sort((a, b) => page.topics[b].share - page.topics[a].share);
  const numbers = [];  // above all circles
  const circles = smallLast.map((k) => {
    const { colour, share } = page.topics[k], radius = Math.max(3, full * Math.sqrt(share / largest));
    const [x, y] = [at(xs, xs[k]), size - at(ys, ys[k])];
    const inside = radius > (k < 9 ? 9 : 13);  // there is room for the number
    const number = svg("text", inside ? { x, y } : { x, y: y - radius - 7, class: "beside" }, String(k + 1));
    const dim = state.topic !== null && state.topic !== k;
    number.style.fill = inside && !dim ? readableOn(colour) : "var(--ink)";
    const circle = svg("circle", { cx: x, cy: y, r: radius, fill: colour });
    const group = svg("g", { class: dim ? "dim" : "" }, circle);
    numbers.push(number);
    group.addEventListener("click", () => focusTopic(k));
    group.addEventListener("pointermove", (event) => showTip(event.clientX, event.clientY, ...topicTip(k)));
    group.addEventListener("pointerleave", hideTip);
    return group;
  });
  const about = { role: "img", "aria-label": "Map of topics; the table below has their distances" };
  $("map-places").replaceChildren(svg("svg", { viewBox: `0 0 ${size} ${size}`, ...about }, ...circles, ...numbers));
}

function topicTip(k) {
  const near = page.order.filter((other) => other !== k).sort((a, b) => distance(k, a) - distance(k, b)).slice(0, 2);
  return [
    el("b", {}, `${k + 1} ${nameOf(k)}`),
    el("div", { class: "about" }, `${page.topics[k].said.share} of all counts. Nearest:`),
    ...near.map((other) => el("div", { class: "about" }, `to ${other + 1} ${nameOf(other)}: ${distance(k, other).toFixed(2)}`)),
  ];
}

function showHeat() {
  const heat = $("heat"), canvas = heat.querySelector("canvas"), said = $("heat-said");
  const usual = "Hellinger distances: the stronger the colour, the more two topics share. Hover, or use the arrow keys.";
  let cell = null;
  said.textContent = usual;
  heat.setAttribute("aria-label", "Heat map of the distances between topics; the table below holds the same numbers");
  const left = K <= 40 ? 20 : 4;
  const sideOf = (width) => (width - left - 2) / K;

  function draw() {
    const { context, width } = sharp(canvas);
    const side = sideOf(width), square = Math.max(side - 1, 0.8 * side);
    const [surface, accent] = [themed("--surface"), themed("--accent")];
    const all = page.order.flatMap((a) => page.order.filter((b) => b !== a).map((b) => distance(a, b)));
    const [nearest, farthest] = [Math.min(...all), Math.max(...all)];
    context.font = `${Math.min(11, side)}px system-ui, sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    page.order.forEach((a, row) => page.order.forEach((b, column) => {
      const near = 0.06 + (0.84 * (farthest - distance(a, b))) / Math.max(farthest - nearest, 1e-9);
      context.fillStyle = a === b ? page.topics[a].colour : rgb(mixed(accent, surface, near));
      context.fillRect(left + column * side, left + row * side, square, square);
    }));
    context.fillStyle = themed("--muted");
    const every = Math.ceil(12 / side);
    if (K <= 40) page.order.forEach((k, place) => {
      if (place % every) return;
      context.fillText(String(k + 1), left + (place + 0.5) * side, left - 9);
      context.fillText(String(k + 1), left - 10, left + (place + 0.5) * side);
    });
    if (cell) {
      context.strokeStyle = themed("--ink");
      context.lineWidth = 2;
      context.strokeRect(left + cell[1] * side - 1, left + cell[0] * side - 1, side + 1, side + 1);
    }
  }
  function choose(next) {
    if (String(next) === String(cell)) return;
    cell = next;
    if (cell) {
      const [a, b] = cell.map((place) => page.order[place]);
      said.textContent = `${a + 1} ${nameOf(a)} – ${b + 1} ${nameOf(b)}: distance ${distance(a, b).toFixed(3)}`;
    } else said.textContent = usual;
    draw();
  }
  heat.addEventListener("pointermove", (event) => {
    const box = heat.getBoundingClientRect(), offsets = [event.clientY - box.top, event.clientX - box.left];
    const inside = offsets.map((offset) => Math.floor((offset - left) / sideOf(box.width)));
    choose(inside.every((place) => place >= 0 && place < K) ? inside : null);
  });
  heat.addEventListener("pointerleave", () => choose(null));
  heat.addEventListener("blur", () => choose(null));
  heat.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    choose((cell ?? [0, 0]).map((place, axis) => Math.min(K - 1, Math.max(0, place + (cell ? step[axis] : 0)))));
  });
  new ResizeObserver(draw).observe(heat);
  follow(["theme", "print"], draw);
}
