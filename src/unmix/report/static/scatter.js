// The map of samples, linked with the Structure plot. Dragging selects samples and summarises them.

let selected = null; // samples, or null
let drawScatter = () => {}, drawScatterMarks = () => {};

function showScatter() {
  if (!page.samples.places || K === 1) return;
  $("scatter").hidden = false;
  const stage = $("scatter-plot"), [points, over] = stage.querySelectorAll("canvas"), said = $("scatter-said"), chosen = $("scatter-colour");
  const codes = uint16(page.samples.places), edge = 14, spans = page.samples.spans;
  const groups = columns.filter((column) => column.groups && column.kind === "text");
  let drag = null, scale = 1, origin = [0, 0];
  chosen.append(el("option", { value: "" }, "largest topic"), ...groups.map(({ name }) => el("option", { value: name }, name)));
  chosen.addEventListener("change", () => update({ colour: chosen.value }));
  const place = (i) => [origin[0] + scale * codes[2 * i] / 65535, origin[1] - scale * codes[2 * i + 1] / 65535];
  const usual = `Each point is a sample: ${page.samples.explained}. Hover, click to open a sample, or drag to select some.`;

  // The colour of each sample, and what colours mean.
  function meaning() {
    const column = columnNamed(state.colour);
    if (column) {
      const shown = column.levels.map((_, level) => groupColour(level));
      return { of: (i) => (Number.isNaN(column.values[i]) ? themedHex("--muted") : shown[column.values[i]]), keys: column.levels.slice(0, MOST_COLOURS).map((text, level) => [text, shown[level]]) };
    }
    if (state.topic !== null) {
      const shades = Array.from({ length: 21 }, (_, step) => rgb(mixed(colourOf(state.topic), themedHex("--ghost"), step / 20)));
      return { of: (i) => shades[Math.round(20 * proportion(i, state.topic))], keys: [] };
    }
    return { of: (i) => colourOf(largestTopic(i)), keys: page.order.slice(0, MOST_COLOURS).map((k) => [`${k + 1} ${nameOf(k)}`, colourOf(k)]) };
  }
  drawScatter = () => {
    const { context, width, height } = sharp(points), radius = samples.n > 3000 ? 1.6 : samples.n > 600 ? 2.4 : 3.4, { of } = meaning();
    scale = Math.min((width - 2 * edge) / spans[0], (height - 2 * edge) / spans[1]);
    origin = [(width - scale * spans[0]) / 2, (height + scale * spans[1]) / 2];
    for (let s = 0; s < samples.n; s++) {
      const i = samples.similarity[(s * 7919) % samples.n], [x, y] = place(i); // mixed, so that no group covers the others
      context.fillStyle = of(i);
      context.globalAlpha = selected && !selected.has(i) ? 0.15 : 0.85;
      context.beginPath();
      context.arc(x, y, radius, 0, 2 * Math.PI);
      context.fill();
    }
    if (!recording) drawScatterMarks();
  };
  drawScatterMarks = () => {
    const { context } = sharp(over);
    for (const [i, width] of [[state.sample, 3], [plot.at === null ? null : plot.sequence[plot.at], 1.5]]) {
      if (i === null) continue;
      context.strokeStyle = themed("--ink");
      context.lineWidth = width;
      context.beginPath();
      context.arc(...place(i), 6, 0, 2 * Math.PI);
      context.stroke();
    }
    if (drag?.moved) {
      context.strokeStyle = themed("--accent");
      context.lineWidth = 1.5;
      context.strokeRect(...drag.from, drag.to[0] - drag.from[0], drag.to[1] - drag.from[1]);
    }
  };
  function nearest(x, y) {
    let best = null, closest = 12 ** 2;
    for (let i = 0; i < samples.n; i++) {
      const [u, v] = place(i), apart = (u - x) ** 2 + (v - y) ** 2;
      if (apart < closest) [best, closest] = [i, apart];
    }
    return best;
  }
  function select(some) {
    selected = some?.size ? some : null;
    $("unselect").hidden = selected === null;
    said.textContent = selected ? summary() : usual;
    drawScatter();
    drawMarks();
  }
  function summary() {
    const means = Array.from({ length: K }, (_, k) => [...selected].reduce((sum, i) => sum + proportion(i, k), 0) / selected.size);
    const best = page.order.slice().sort((a, b) => means[b] - means[a]).slice(0, 4);
    return `${counted(selected.size, "sample")} selected. Mean proportions: ${best.map((k) => `${k + 1} ${nameOf(k)} ${percent(means[k])}`).join("; ")}.`;
  }
  const forget = pointed(stage, {
    at: (x, y) => (drag?.moved ? null : nearest(x, y)),
    step: (i, right, down) => plot.sequence[along(() => samples.n)(i === null ? null : plot.place[i], right, down)],
    choose: (i) => {
      plot.at = i === null ? null : plot.place[i];
      drawMarks();
      if (i !== null) $("said").textContent = sampleSentence(i);
    },
    tip: sampleTip,
    open: (i) => { if (!drag?.moved) update({ sample: i }); },
  });
  const offset = (event) => { const box = stage.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  stage.addEventListener("pointerdown", (event) => { if (event.button === 0) drag = { from: offset(event), to: offset(event), moved: false }; });
  stage.addEventListener("pointermove", (event) => {
    if (!drag || !event.buttons) return;
    drag.to = offset(event);
    drag.moved ||= Math.hypot(drag.to[0] - drag.from[0], drag.to[1] - drag.from[1]) > 5;
    drawScatterMarks();
  });
  stage.addEventListener("pointerup", () => {
    if (!drag?.moved) { drag = null; return; }
    const [[left, right], [top, bottom]] = [0, 1].map((axis) => [drag.from[axis], drag.to[axis]].sort((a, b) => a - b));
    const inside = new Set();
    for (let i = 0; i < samples.n; i++) {
      const [x, y] = place(i);
      if (x >= left && x <= right && y >= top && y <= bottom) inside.add(i);
    }
    setTimeout(() => { drag = null; drawScatterMarks(); }); // after the click that ends the drag
    forget();
    select(inside);
  });
  $("unselect").addEventListener("click", () => { select(null); stage.focus(); });
  corner($("scatter").querySelector(".title-row > .row"), "map-of-samples", () => (state.colour || state.topic !== null ? recorded(points, drawScatter) : withKeys(recorded(points, drawScatter))));
  new ResizeObserver(drawScatter).observe(stage);
  follow(["theme", "topic", "names", "colour", "print"], () => {
    chosen.value = state.colour;
    const colour = $("scatter-colour").selectedOptions[0].textContent;
    stage.setAttribute("aria-label", `Map of ${counted(samples.n, "sample")}, coloured by ${colour}. Use the arrow keys to move.`);
    $("scatter-keys").replaceChildren(...meaning().keys.map(([text, colour]) => el("span", {}, el("i", { "--colour": colour }), text)));
    said.textContent = selected ? summary() : usual;
    drawScatter();
  });
  follow(["sample"], drawScatterMarks);
}
