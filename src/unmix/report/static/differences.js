// Differential features: a volcano plot of one topic, its points as a table, and marks for the cards of topics.

const CLASSES = [[0.001, "--surest"], [0.01, "--surer"], [0.05, "--sure"], [Infinity, "--ghost"]];

sections.differences = (content) => {
  const stage = $("volcano"), canvas = stage.querySelector("canvas"), said = $("volcano-said");
  const frequency = new Float32Array(bytes(content.frequency));
  const topics = content.topics.map(({ places, numbers, left_out }) => {
    const at = new Uint32Array(bytes(places)), all = new Float32Array(bytes(numbers));
    const points = Array.from(at, (name, i) => {
      const [lfc, raw, sd, z, lfsr] = all.subarray(5 * i, 5 * i + 5);
      return { name: content.names[name], frequency: frequency[name], lfc, raw, sd, z, lfsr };
    });
    return { points, left_out };
  });
  const known = new Map(features.names.map((name, feature) => [name, feature]));
  const chosen = $("volcano-topic"), upward = $("volcano-y");
  let spots = [], current = null;
  upward.addEventListener("change", () => { draw(); });
  const topic = () => state.topic ?? page.order[0];
  const named = choosingTopics(chosen, topic);
  const signed = (number) => minus(`${number >= 0 ? "+" : ""}${number.toFixed(2)}`);
  const rate = (lfsr) => (lfsr < 0.0001 ? "< 0.0001" : lfsr.toPrecision(2));
  const interval = ({ raw, sd }) => `${signed(raw - 1.645 * sd)} to ${signed(raw + 1.645 * sd)}`;
  const colourOf = (lfsr) => CLASSES.find(([bound]) => lfsr < bound)[1];

  function draw() {
    const { context, width, height } = sharp(canvas);
    const { points } = topics[topic()], left = 44, bottom = 34, top = 12, right = 14;
    const byZ = upward.value === "z";
    const rise = byZ ? ({ z }) => Math.sqrt(Math.abs(z)) : (point) => Math.log10(point.frequency);
    const rises = points.map(rise), widest = Math.max(1, ...points.map(({ lfc }) => Math.abs(lfc)));
    const low = byZ ? 0 : Math.min(...rises, 0), high = Math.max(...rises, low + 1);
    const x = (lfc) => left + ((lfc / widest + 1) / 2) * (width - left - right);
    const y = (value) => height - bottom - ((value - low) / (high - low)) * (height - bottom - top);
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = themed("--muted");
    context.strokeStyle = themed("--line");
    context.textAlign = "center";
    const step = [0.5, 1, 2, 5, 10].find((unit) => widest / unit <= 5) ?? 20;
    for (let lfc = -Math.floor(widest / step) * step; lfc <= widest; lfc += step) {
      line(x(lfc), top, x(lfc), height - bottom);
      context.fillText(minus(String(lfc)), x(lfc), height - bottom + 15);
    }
    context.textAlign = "right";
    for (const [value, name] of ticks(byZ, low, high)) {
      line(left, y(value), width - right, y(value));
      context.fillText(name, left - 6, y(value) + 4);
    }
    context.textAlign = "left";
    context.fillText(byZ ? "|z|" : "frequency", 4, top);
    context.textAlign = "center";
    context.fillText(`log₂ fold change (shrunken), against ${content.against}`, (left + width - right) / 2, height - 4);
    spots = points.map((point, i) => ({ point, x: x(point.lfc), y: y(rises[i]) }));
    for (const [bound, name] of [...CLASSES].reverse()) {
      context.fillStyle = themed(name);
      for (const spot of spots) {
        if (colourOf(spot.point.lfsr) !== name) continue;
        context.beginPath();
        context.arc(spot.x, spot.y, bound === Infinity ? 1.8 : 2.6, 0, 2 * Math.PI);
        context.fill();
      }
    }
    label(context, width, top);
    if (current !== null) ring(context, spots[current]);
    function line(x0, y0, x1, y1) {
      context.beginPath();
      context.moveTo(x0, y0);
      context.lineTo(x1, y1);
      context.stroke();
    }
  }
  function ticks(byZ, low, high) {
    if (!byZ) return Array.from({ length: Math.floor(high) - Math.ceil(low) + 1 }, (_, i) => Math.ceil(low) + i)
      .map((power) => [power, power < -3 ? `1e${power}` : String(Number((10 ** power).toPrecision(1)))]);
    return [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].filter((z) => Math.sqrt(z) <= high).map((z) => [Math.sqrt(z), String(z)]);
  }
  // The names of the most different features, where there is room; points come in that order.
  function label(context, width, top) {
    const taken = [];
    context.fillStyle = themed("--ink");
    const [more, less] = [1, -1].map((sign) => spots.filter(({ point }) => point.lfsr < 0.05 && point.lfc * sign > 0).slice(0, 14));
    for (const spot of [...more, ...less]) {
      const wide = context.measureText(spot.point.name).width, leftwards = spot.x + wide + 8 > width;
      const box = [leftwards ? spot.x - wide - 5 : spot.x + 5, Math.max(spot.y - 6, top - 6), wide, 12];
      if (taken.some((other) => Math.abs(box[1] - other[1]) < 12 && box[0] < other[0] + other[2] && other[0] < box[0] + wide)) continue;
      taken.push(box);
      context.textAlign = "left";
      context.fillText(spot.point.name, box[0], box[1] + 10);
    }
  }
  function ring(context, spot) {
    context.strokeStyle = themed("--ink");
    context.lineWidth = 1.5;
    context.beginPath();
    context.arc(spot.x, spot.y, 5.5, 0, 2 * Math.PI);
    context.stroke();
  }
  const told = (point) => `${point.name}: ${signed(point.lfc)} (unshrunken ${interval(point)}), z ${signed(point.z)}, lfsr ${rate(point.lfsr)}`;
  const usual = () => {
    const { points, left_out } = topics[topic()], k = topic();
    const sure = `${counted(content.sure[k], "feature")} significantly different (lfsr < 0.05). `;
    const part = left_out ? `Shown: the most different features and a sample of the others, ${grouped(points.length)} in total. ` : "";
    return `${sure}${part}Hover, or use the arrow keys; click to see a feature in all topics.`;
  };
  function nearest(px, py) {
    let best = null, closest = 14 ** 2;
    spots.forEach((spot, i) => {
      const apart = (spot.x - px) ** 2 + (spot.y - py) ** 2;
      if (apart < closest) [best, closest] = [i, apart];
    });
    return best;
  }
  const forget = pointed(stage, {
    at: nearest,
    step: along(() => spots.length),
    choose: (next) => {
      current = next;
      said.textContent = current === null ? usual() : told(spots[current].point);
      draw();
    },
    open: (spot) => {
      const feature = known.get(spots[spot].point.name);
      if (feature !== undefined) findFeature(feature);
    },
    tip: (spot) => {
      const { point } = spots[spot];
      return [el("b", {}, point.name),
        el("div", { class: "about" }, `log₂ change ${signed(point.lfc)}, unshrunken ${interval(point)} (90%)`),
        el("div", { class: "about" }, `z ${signed(point.z)}, lfsr ${rate(point.lfsr)}, ${percent(point.frequency)} of all counts`)];
    },
  });
  const fill = unfolding($("volcano-table"), () => {
    const { points } = topics[topic()];
    return { heads: ["feature", "log₂ change", "unshrunken, 90%", "z", "lfsr"], n: points.length,
      row: (i) => [points[i].name, signed(points[i].lfc), interval(points[i]), signed(points[i].z), rate(points[i].lfsr)] };
  });
  corner($("differences").querySelector(".title-row > .row"), "volcano", () => recorded(canvas, draw));
  $("differences-advice").append(...remarks(content.advice));
  new ResizeObserver(draw).observe(stage);
  follow(["topic", "names", "theme", "print"], (keys) => {
    named();
    if (keys.has("topic")) current = forget();
    said.textContent = usual();
    stage.setAttribute("aria-label", `Volcano plot of topic ${topic() + 1}; the table below has its points`);
    fill();
    draw();
  });
};

// Whether a feature is significantly more frequent in a topic, where the page has differences.
const sureMarks = page.differences?.marks.map((text) => new Uint8Array(bytes(text))) ?? null;
const surelyMore = (k, feature) => ((sureMarks[k][feature >> 3] >> (7 - (feature & 7))) & 1) === 1;
