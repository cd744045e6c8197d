// A section without markup in the template: a title, the table of the result, and its advice. A script may add to it.

function addSection(name, { title, heads, rows, advice }) {
  const card = el("section", { class: "card", id: name, "aria-labelledby": `${name}-title` },
    el("div", { class: "title-row" }, el("h2", { id: `${name}-title` }, title)),
    scrolling(`${title}: table`, grid(heads, rows)),
    el("ul", { class: "hint" }, ...remarks(advice)));
  card.querySelector(".title-row").append(el("div", { class: "row controls" },
    button("small quiet", "CSV", () => saveTable(name, heads, rows), { "aria-label": `Download ${title} as CSV` })));
  $("map").before(card);
  return card;
}
