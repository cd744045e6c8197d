// Similarity of topics: places in the plane, and a heat map of their distances, similar topics next to each other.

const distances = uint16(page.map.distances);
const distance = (a, b) => distances[a * K + b] / 65535;
const heatOrder = page.map.order;

function showMap() {
  if (K === 1) {
    $("map").hidden = true;
    return;
  }
  follow(["topic", "names", "theme", "print"], drawPlaces);
  showHeat();
  unfolding($("map-table"), () => ({ heads: ["topic", ...heatOrder.map((k) => String(k + 1))], n: K,
    row: (i) => [`${heatOrder[i] + 1} ${nameOf(heatOrder[i])}`, ...heatOrder.map((b) => distance(heatOrder[i], b).toFixed(2))] }));
  corner($("map-places").parentElement, "topic-map", () => withKeys(copied($("map-places").firstChild)));
}

function drawPlaces() {
  const size = 400, edge = 46;
  const [xs, ys] = [0, 1].map((axis) => page.map.places.map((place) => place[axis]));
  const span = Math.max(Math.max(...xs) - Math.min(...xs), Math.max(...ys) - Math.min(...ys), 1e-9);
  const at = (values, value) => size / 2 + ((value - (Math.max(...values) + Math.min(...values)) / 2) / span) * (size - 2 * edge);
  const largest = Math.max(...page.topics.map(({ share }) => share));
  const full = Math.max(14, Math.min(40, 130 / Math.sqrt(K)));
  const smallLast = [...page.order].sort((a, b) => page.topics[b].share - page.topics[a].share);
  const numbers = []; // above all circles, with their places; none over another
  const circles = smallLast.map((k) => {
    const { share } = page.topics[k], colour = colourOf(k), radius = Math.max(3, full * Math.sqrt(share / largest));
    const [x, y] = [at(xs, xs[k]), size - at(ys, ys[k])];
    const inside = radius > (k < 9 ? 9 : 13);  // there is room for the number
    const dim = state.topic !== null && state.topic !== k, down = inside ? y : y - radius - 7;
    const clear = state.topic === k || numbers.every(([, u, v]) => Math.abs(u - x) > 16 || Math.abs(v - down) > 13);
    if (clear) {
      const number = svg("text", { x, y: down, ...(inside ? {} : { class: "beside" }) }, String(k + 1));
      number.style.fill = inside && !dim ? readableOn(colour) : "var(--ink)";
      numbers.push([number, x, down]);
    }
    const circle = svg("circle", { cx: x, cy: y, r: radius, fill: colour });
    const group = svg("g", { class: dim ? "dim" : "" }, circle);
    group.addEventListener("click", () => focusTopic(k));
    group.addEventListener("pointermove", (event) => showTip(event.clientX, event.clientY, ...topicTip(k)));
    group.addEventListener("pointerleave", hideTip);
    return group;
  });
  const about = { role: "img", "aria-label": "Map of topics; the table below has their distances" };
  $("map-places").replaceChildren(svg("svg", { viewBox: `0 0 ${size} ${size}`, ...about }, ...circles, ...numbers.map(([number]) => number)));
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
  const usual = "Hellinger distances; the stronger the colour, the more two topics share. Hover, or use the arrow keys.";
  let cell = null;
  said.textContent = usual;
  heat.setAttribute("aria-label", "Heat map of the distances between topics; the table below has the same numbers");
  const left = 20, sideOf = (width) => (width - left - 2) / K;

  function draw() {
    const { context, width } = sharp(canvas);
    const side = sideOf(width), square = Math.max(side - 1, 0.8 * side);
    const [surface, accent] = [themed("--surface"), themed("--accent")];
    const all = page.order.flatMap((a) => page.order.filter((b) => b !== a).map((b) => distance(a, b)));
    const [nearest, farthest] = [Math.min(...all), Math.max(...all)];
    context.font = `${Math.max(8, Math.min(11, side))}px system-ui, sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    heatOrder.forEach((a, row) => heatOrder.forEach((b, column) => {
      const near = 0.06 + (0.84 * (farthest - distance(a, b))) / Math.max(farthest - nearest, 1e-9);
      context.fillStyle = a === b ? colourOf(a) : rgb(mixed(accent, surface, near));
      context.fillRect(left + column * side, left + row * side, square, square);
    }));
    context.fillStyle = themed("--muted");
    const every = Math.ceil(12 / side);
    heatOrder.forEach((k, place) => {
      if (place % every && place !== cell?.[0]) return;
      context.fillText(String(k + 1), left + (place + 0.5) * side, left - 9);
      context.fillText(String(k + 1), left - 10, left + (place + 0.5) * side);
    });
    if (cell) {
      context.strokeStyle = themed("--ink");
      context.lineWidth = 2;
      context.strokeRect(left + cell[1] * side - 1, left + cell[0] * side - 1, side + 1, side + 1);
    }
  }
  pointed(heat, {
    at: (x, y, { width }) => {
      const inside = [y, x].map((offset) => Math.floor((offset - left) / sideOf(width)));
      return inside.every((place) => place >= 0 && place < K) ? inside : null;
    },
    step: (item, right, down) => (item ? [down, right].map((by, axis) => Math.min(K - 1, Math.max(0, item[axis] + by))) : [0, 0]),
    choose: (next) => {
      cell = next;
      const [a, b] = (cell ?? []).map((place) => heatOrder[place]);
      said.textContent = cell ? `${a + 1} ${nameOf(a)} – ${b + 1} ${nameOf(b)}: distance ${distance(a, b).toFixed(3)}` : usual;
      draw();
    },
  });
  corner(heat.parentElement, "topic-distances", () => recorded(canvas, draw));
  new ResizeObserver(draw).observe(heat);
  follow(["theme", "topic", "print"], draw);
}
