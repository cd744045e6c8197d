// Mean proportions by group or over time, with intervals: a small chart per topic; groups over time have colours of their own.

sections.prevalence = (first, card, name = "prevalence") => {
  const all = [first, ...(first.others ?? [])], select = el("select", {}, ...all.map(({ by }, i) => el("option", { value: i }, by)));
  const about = el("p", { class: "hint" }), keys = el("div", { class: "keys hint" }), advice = card.querySelector("ul");
  const panels = el("div"), controls = el("div", { class: "row controls" }, all.length > 1 ? el("label", {}, name === "prevalence" ? "groups " : "by ", select) : null);
  card.querySelector(".title-row .row").replaceWith(controls); // its table is below
  card.querySelector(".scroll").replaceWith(about, keys, panels);
  let chosen = first, from = 0;
  select.addEventListener("change", () => { chosen = all[select.value]; draw(); });
  const range = ({ mean, low, high }) => `${percent(mean)}${low === null ? "" : `, ${percent(low)} to ${percent(high)}`}`;
  const told = (row) => `${[chosen.by ? chosen.groups[row.group] : "", row.bin].filter(Boolean).join(", ")}: ${range(row)}${row.samples === null ? "" : ` (${counted(row.samples, "sample")})`}`;

  function byGroup(k, rows) {
    const longest = Math.min(26, Math.max(8, ...rows.map(({ group }) => chosen.groups[group].length)));
    const edge = { left: 14 + 6 * longest, right: 14, top: 8, bottom: 20 }, width = Math.max(300, 196 + edge.left), height = edge.top + 19 * rows.length + edge.bottom;
    const top = reach(rows), colour = colourOf(k), x = (part) => edge.left + (Math.max(0, part) / top) * (width - edge.left - edge.right), parts = [];
    for (const tick of roundTicks(0, top, 4)) {
      parts.push(svg("line", { class: "grid-line", x1: x(tick), x2: x(tick), y1: edge.top, y2: height - edge.bottom }),
        svgText(x(tick), height - 5, "middle", tickPercent(tick)));
    }
    rows.forEach((row, place) => {
      const y = edge.top + 19 * (place + 0.5), name = chosen.groups[row.group];
      const line = row.low === null ? null : svg("line", { class: "range", stroke: colour, x1: x(row.low), x2: x(row.high), y1: y, y2: y });
      parts.push(svg("g", {}, svg("title", {}, told(row)), svgText(edge.left - 8, y + 4, "end", name.length > 26 ? `${name.slice(0, 25)}…` : name), line,
        svg("circle", { cx: x(row.mean), cy: y, r: 4, fill: colour })));
    });
    return svg("svg", { viewBox: `0 0 ${width} ${height}` }, ...parts);
  }
  function overTime(k, rows) {
    const { by, groups, dates } = chosen, values = rows.map(({ at }) => at), [least, most] = [Math.min(...values), Math.max(...values)];
    const date = (days) => new Date(86400000 * days).toISOString().slice(0, 7);
    const ticks = dates ? [least, (least + most) / 2, most].map((at) => [at, date(at)]) : roundTicks(least, most, 4).map((at) => [at, minus(String(at))]);
    const lines = groups.map((_, group) => ({ rows: rows.filter((row) => row.group === group), colour: groups.length > 1 ? groupColour(group) : colourOf(k) }));
    return trend(lines, ticks, told);
  }
  function panel(k) {
    const drawn = (chosen.over ? overTime : byGroup)(k, chosen.topics[k]);
    drawn.setAttribute("role", "img");
    drawn.setAttribute("aria-label", `Mean proportions of topic ${k + 1}; the table has the numbers`);
    const list = chosen.examples[k].map(({ sample, proportion }) => `${sample} ${percent(proportion)}`).join("; ");
    return el("figure", { "data-topic": k + 1 }, topicLink(k), drawn, list ? el("figcaption", { class: "hint" }, `Typical samples: ${list}.`) : null);
  }
  function draw() {
    const { by, over, groups, level } = chosen;
    about.textContent = chosen.about ?? `Mean proportions${by ? ` by ${by}` : ""}${over ? ` over ${over}` : ""}, with ${wholePercent(level)} intervals. All samples have equal weight.`;
    keys.replaceChildren(...(over && by ? groups.map((group, place) => el("span", {}, el("i", { "--colour": groupColour(place) }), group)) : []));
    advice.replaceChildren(...remarks(chosen.advice));
    panels.replaceChildren(...paged(name === "prevalence" ? "means" : name, from, panel, (place) => { from = place; draw(); }));
    fill();
  }
  const details = el("details", { id: `${name}-table` }, el("summary", {}, "Means as a table"));
  advice.before(details);
  const fill = unfolding(details, () => {
    const rows = listed().flatMap((k) => chosen.topics[k].map((row) => ({ k, ...row })));
    const row = (show) => (i) => {
      const { k, group, bin, samples, mean, low, high } = rows[i];
      return [`${k + 1} ${nameOf(k)}`, chosen.groups[group], bin, String(samples ?? ""), ...[mean, low, high].map((part) => (part === null ? "" : show(part)))];
    };
    return { heads: ["topic", chosen.by || "group", chosen.over || "bin", "samples", "mean", "low", "high"], n: rows.length, row: row(percent), numbers: row(String) };
  });
  cornerOfPanels(controls, name === "prevalence" ? "means" : name, panels);
  follow(["names", "theme", "print", "list", "topic"], draw);
};
