// How far proportions can move at the same likelihood: a range for each sample, from the least proportion to the largest.

sections.freedom = (content) => {
  const stage = $("ranges"), canvas = stage.querySelector("canvas"), said = $("ranges-said"), chosen = $("ranges-topic");
  const places = new Uint32Array(bytes(content.places)), codes = uint16(content.ranges), shown = places.length / K;
  const edge = { left: 42, right: 8, top: 8, bottom: 22 };
  let at = null;
  // the topic that is least decided, unless one is in focus
  const widest = content.topics.reduce((best, { mean }, k) => (mean > content.topics[best].mean ? k : best), 0);
  const topic = () => state.topic ?? widest;
  const range = (k, i) => [0, 1, 2].map((part) => codes[(k * shown + i) * 3 + part] / 65535);
  const told = (k, i) => {
    const [own, low, high] = range(k, i);
    return `${content.names[places[k * shown + i]]}: ${percent(own)}, could be ${percent(low)} to ${percent(high)}`;
  };
  chosen.append(...page.order.map((k) => el("option", { value: k })));
  chosen.addEventListener("change", () => update({ topic: Number(chosen.value) }));

  function draw() {
    const { context, width, height } = sharp(canvas), k = topic();
    const wide = (width - edge.left - edge.right) / shown;
    const x = (i) => edge.left + i * wide, y = (part) => edge.top + (1 - part) * (height - edge.top - edge.bottom);
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "right";
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      context.fillStyle = themed("--line");
      context.fillRect(edge.left, y(part), width - edge.left - edge.right, 1);
      context.fillStyle = themed("--muted");
      context.fillText(percent(part), edge.left - 6, y(part) + 4);
    }
    context.textAlign = "center";
    context.fillText(`samples, by proportion of topic ${k + 1}`, (edge.left + width - edge.right) / 2, height - 5);
    for (let i = 0; i < shown; i++) {
      const [own, low, high] = range(k, i), gap = wide > 4 ? 1 : 0;
      context.fillStyle = page.topics[k].colour;
      context.globalAlpha = at === i ? 0.9 : 0.4;
      context.fillRect(x(i), y(high), Math.max(wide - gap, 0.5), Math.max(y(low) - y(high), 1));
      context.globalAlpha = 1;
      context.fillStyle = themed("--ink");
      context.fillRect(x(i), y(own) - 1, Math.max(wide - gap, 1), 2);
    }
  }
  function choose(next) {
    if (next === at) return;
    at = next;
    said.textContent = at === null ? usual() : told(topic(), at);
    draw();
  }
  const usual = () => {
    const { widest: most, said } = content.topics[topic()];
    return `Topic ${topic() + 1}: ${most < 1e-6 ? "nothing can move" : said}.`;
  };
  stage.addEventListener("pointermove", (event) => {
    const { left, width } = stage.getBoundingClientRect();
    const i = Math.floor(((event.clientX - left - edge.left) / (width - edge.left - edge.right)) * shown);
    choose(i >= 0 && i < shown ? i : null);
  });
  for (const end of ["pointerleave", "blur"]) stage.addEventListener(end, () => choose(null));
  stage.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    choose(at === null ? 0 : Math.min(shown - 1, Math.max(0, at + step)));
  });
  const fill = unfolding("ranges-table", () => grid(["sample", "proportion", "least", "largest"],
    Array.from({ length: shown }, (_, i) => [content.names[places[topic() * shown + i]], ...range(topic(), i).map(percent)])));
  $("freedom-advice").append(...content.advice.map((text) => el("li", {}, text)));
  $("ranges-price").textContent = content.loss === 0 ? "at exactly the same likelihood"
    : `for ${content.loss} units of log-likelihood`;
  new ResizeObserver(draw).observe(stage);
  follow(["topic", "names", "theme", "print"], () => {
    [...chosen.options].forEach((option) => { option.textContent = `${Number(option.value) + 1} ${nameOf(Number(option.value))}`; });
    chosen.value = String(topic());
    at = null;
    said.textContent = usual();
    stage.setAttribute("aria-label", `Ranges of the proportions of topic ${topic() + 1}; the table below has the numbers`);
    fill();
    draw();
  });
};

// How wide the freedom of a topic is, with words on hover; nothing where that is not known.
function freedomMark(k) {
  const known = page.freedom?.topics[k];
  if (!known) return null;
  const words = `Its ${known.said}`;
  return el("span", { class: `freedom${known.mean >= 0.05 ? " wide" : ""}`, title: words }, `↔ ${known.mark}`);
}
