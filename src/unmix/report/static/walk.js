// Moving over the Structure plot: hover, zoom and open by pointer, walk by keyboard.

function sampleTip(i) {
  const about = columns.slice(0, 6).map((column) => `${column.name}: ${valueText(column, column.values[i])}`);
  return [
    el("b", {}, samples.names[i]),
    ...about.map((line) => el("div", { class: "about" }, line)),
    el("ul", {}, ...largestTopics(i, 3).map((k) =>
      el("li", {}, swatch(k, "small"), el("span", {}, nameOf(k)), el("span", {}, percent(proportion(i, k)))))),
  ];
}
const sampleSentence = (i) =>
  [samples.names[i], ...largestTopics(i, 3).map((k) => `topic ${k + 1}, ${nameOf(k)}: ${percent(proportion(i, k))}`)].join("; ");

function zoom(from, to) {
  const width = Math.min(plot.units, Math.max(4, to - from));
  const start = Math.min(Math.max(0, (from + to - width) / 2), plot.units - width);
  plot.view = [start, start + width];
  $("zoom-out").hidden = width >= plot.units;
  drawStructure();
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
  showTip(box.left + toX(unit + 0.5, box.width), box.top + 40, ...sampleTip(plot.sequence[plot.at]));
  $("said").textContent = sampleSentence(plot.sequence[plot.at]);
}

function listenToStructure() {
  const stage = $("stage");
  let opening = 0;
  const offset = (event) => event.clientX - stage.getBoundingClientRect().left;
  const unitAt = (x) => plot.view[0] + (x / stage.getBoundingClientRect().width) * (plot.view[1] - plot.view[0]);
  stage.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    plot.drag = { from: offset(event), to: offset(event), moved: false };
    stage.setPointerCapture(event.pointerId);
  });
  stage.addEventListener("pointermove", (event) => {
    if (plot.drag) {
      plot.drag.to = offset(event);
      plot.drag.moved ||= Math.abs(plot.drag.to - plot.drag.from) > 5;
    }
    const place = plot.drag?.moved ? null : placeAt(unitAt(offset(event)));
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
    if (drag?.moved) zoom(...[drag.from, offset(event)].sort((a, b) => a - b).map(unitAt));
    else if (drag) {
      const place = placeAt(unitAt(offset(event)));
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
