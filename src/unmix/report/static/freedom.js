// How far proportions can move at the same likelihood: a range per sample, samples sorted by proportion.

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
  const named = choosingTopics(chosen, topic);
  $("freedom-advice").append(...remarks(content.advice));
  $("ranges-price").textContent = content.loss === 0 ? "at exactly the same likelihood"
    : `for ${content.loss} units of log-likelihood`;
  if (content.topics.every(({ widest }) => widest < 1e-6)) { // nothing to draw
    for (const hidden of [stage, $("ranges-help"), $("ranges-table"), chosen.parentElement, $("freedom-advice")]) hidden.hidden = true;
    said.replaceChildren(el("b", { class: "good" }, "● Identified: "),
      `no other proportions or topics have ${content.loss === 0 ? "the same likelihood" : `a log-likelihood within ${content.loss} units`}.`);
    return;
  }

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
      context.fillStyle = colourOf(k);
      context.globalAlpha = at === i ? 0.9 : 0.4;
      context.fillRect(x(i), y(high), Math.max(wide - gap, 0.5), Math.max(y(low) - y(high), 1));
      context.globalAlpha = 1;
      context.fillStyle = themed("--ink");
      context.fillRect(x(i), y(own) - 1, Math.max(wide - gap, 1), 2);
    }
  }
  const usual = () => {
    const { widest: most, said } = content.topics[topic()];
    return `Topic ${topic() + 1}: ${most < 1e-6 ? "identified" : said}.`;
  };
  const forget = pointed(stage, {
    at: (x, _, { width }) => {
      const i = Math.floor(((x - edge.left) / (width - edge.left - edge.right)) * shown);
      return i >= 0 && i < shown ? i : null;
    },
    step: along(() => shown),
    choose: (next) => {
      at = next;
      said.textContent = at === null ? usual() : told(topic(), at);
      draw();
    },
  });
  const fill = unfolding($("ranges-table"), () => ({ heads: ["sample", "proportion", "lowest", "highest"], n: shown,
    row: (i) => [content.names[places[topic() * shown + i]], ...range(topic(), i).map(percent)] }));
  corner($("freedom").querySelector(".title-row > .row"), "ranges", () => recorded(canvas, draw));
  new ResizeObserver(draw).observe(stage);
  follow(["topic", "names", "theme", "print"], () => {
    named();
    at = null;
    forget();
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
