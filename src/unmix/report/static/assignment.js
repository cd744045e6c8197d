// Which topics of a catalogue samples have: a row per topic and a column per sample, as dark as the probability is high, in the
// colour of the topic where the sample has it; and a table of samples.

sections.assignment = (content, card) => {
  const { topics, names, table: [heads, rows] } = content, across = names.length, down = topics.length;
  const probabilities = uint16(content.probabilities), exposures = new Float32Array(bytes(content.exposures));
  const canvas = el("canvas", { "aria-hidden": "true" }), said = el("p", { class: "hint", "aria-live": "polite" });
  const stage = el("div", { id: "assignment-plot", tabindex: 0, role: "application", "aria-roledescription": "probabilities of topics",
    "aria-label": "Probability that a sample has a topic; the tables have the numbers" }, canvas);
  const details = el("details", { id: "assigned-table" }, el("summary", {}, "Samples as a table"));
  const size = Math.max(9, Math.min(17, 520 / down)), edge = { left: 132, right: 8, top: 4, bottom: 20 };
  let at = null;
  stage.style.height = `${edge.top + edge.bottom + size * down}px`;
  card.querySelector(".title-row").after(stage, said);
  card.append(el("p", { class: "hint" }, "Columns are samples; a cell is as dark as the probability of the topic is high, in colour where the sample has it."), details);
  const usual = `${counted(rows.length, "sample")}${across < rows.length ? `, ${across} of them shown` : ""}, ${counted(down, "topic")}.`;
  const shortened = (text) => (text.length > 20 ? `${text.slice(0, 19)}…` : text);

  function draw() {
    const { context, width } = sharp(canvas), wide = (width - edge.left - edge.right) / across;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "right";
    const [ink, muted] = [themed("--ink"), themed("--muted")]; // topics beyond the twelfth are grey elsewhere
    topics.forEach((k, row) => {
      const y = edge.top + size * row;
      context.fillStyle = themed("--muted");
      context.fillText(shortened(nameOf(k)), edge.left - 7, y + size / 2 + 4);
      context.fillStyle = themed("--line");
      context.fillRect(edge.left, y + size - 1, width - edge.left - edge.right, 0.5);
      for (let i = 0; i < across; i++) {
        const cell = i * down + row, part = probabilities[cell] / 65535;
        if (part < 0.02) continue;
        context.globalAlpha = exposures[cell] > 0 ? 0.25 + 0.75 * part : 0.7 * part;
        context.fillStyle = exposures[cell] > 0 ? (row < 12 ? colourOf(k) : ink) : muted;
        context.fillRect(edge.left + i * wide, y, Math.max(wide - (wide > 4 ? 1 : 0), 0.7), size - 1.5);
      }
      context.globalAlpha = 1;
    });
    context.textAlign = "center";
    context.fillStyle = themed("--muted");
    context.fillText("samples", (edge.left + width - edge.right) / 2, edge.top + size * down + 15);
    if (at === null) return;
    context.strokeStyle = themed("--ink");
    context.strokeRect(edge.left + Math.floor(at / down) * wide, edge.top + size * (at % down), Math.max(wide, 2), size - 1);
  }
  const described = (cell) => {
    const part = probabilities[cell] / 65535, own = exposures[cell];
    return `${names[Math.floor(cell / down)]}, ${nameOf(topics[cell % down])}: probability ${percent(part)}, ${own > 0 ? `exposure ${grouped(own, own < 10 ? 1 : 0)}` : "not assigned"}`;
  };
  pointed(stage, {
    at: (x, y, { width }) => {
      const i = Math.floor(((x - edge.left) / (width - edge.left - edge.right)) * across), row = Math.floor((y - edge.top) / size);
      return i >= 0 && i < across && row >= 0 && row < down ? i * down + row : null;
    },
    step: (from, right, lower) => {
      if (from === null) return 0;
      const i = Math.min(across - 1, Math.max(0, Math.floor(from / down) + right)), row = Math.min(down - 1, Math.max(0, (from % down) + lower));
      return i * down + row;
    },
    choose: (next) => {
      at = next;
      said.textContent = at === null ? usual : described(at);
      draw();
    },
  });
  said.textContent = usual;
  const text = (value) => (value === null ? "–" : minus(String(value)));
  unfolding(details, () => ({ heads, n: rows.length, row: (i) => rows[i].map(text) }));
  corner(card.querySelector(".title-row > .row"), "assignment", () => recorded(canvas, draw));
  new ResizeObserver(draw).observe(stage);
  follow(["names", "theme", "print"], draw);
};
