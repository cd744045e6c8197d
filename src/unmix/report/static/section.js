// A section that has no markup of its own: a title, the table of the result, and its advice. A script may add to it.

function addSection(name, { title, heads, rows, advice }) {
  const card = el("section", { class: "card", id: name, "aria-labelledby": `${name}-title` },
    el("div", { class: "title-row" }, el("h2", { id: `${name}-title` }, title)),
    el("div", { class: "scroll" }, grid(heads, rows)),
    el("ul", { class: "hint" }, ...advice.map((text) => el("li", {}, text))));
  $("map").before(card);
  return card;
}
