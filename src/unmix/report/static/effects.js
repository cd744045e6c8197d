// Effects of covariates: the table of tests, and mean proportions by level or along a number, drawn as in prevalence.js.

sections.effects = ({ views }, card) => {
  if (!views.length) return;
  const inner = el("div", {}, el("div", { class: "title-row" }, el("div", { class: "row" })), el("div", { class: "scroll" }), el("ul"));
  card.append(inner);
  sections.prevalence({ ...views[0], others: views.slice(1) }, inner, "effects");
};
