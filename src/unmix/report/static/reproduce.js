// How to reproduce this fit, and its numbers to download.

function showReproduce() {
  const { command, python, params, versions, data } = page.reproduce;
  const code = (title, text) => {
    const copy = button("small", "Copy", () => copyText(text, copy), { "aria-label": `Copy: ${title}` });
    return el("div", {}, el("h3", {}, title, copy), el("pre", {}, el("code", {}, text)));
  };
  const table = (title, pairs) => el("div", {}, el("h3", {}, title), facts(pairs));
  const take = el("div", { class: "controls" },
    el("h3", {}, "Download data"),
    el("div", { class: "row" },
      button("", "Proportions (CSV)", () => download("proportions.csv", proportionsCsv()), { id: "download-proportions" }),
      button("", "Topics (CSV)", () => download("topics.csv", topicsCsv()), { id: "download-topics" })),
    el("p", { class: "hint" }, "Precision of this page: proportions 1/65535, weights 0.03%. " +
      "Names that a spreadsheet would run as formulas are prefixed with an apostrophe."),
    ...page.notes.map((note) => el("p", { class: "hint" }, note)));
  $("reproduce").append(
    el("div", { class: "title-row" }, el("h2", { id: "reproduce-title" }, "Reproduce")),
    el("div", { class: "columns" },
      ...(command ? [code("Command line", command)] : []),
      code("Python", python),
      table("Data", [["shape", page.glance[0]], ...data]),
      table("Parameters", [["model", page.model], ...params]),
      ...(versions.length ? [table("Versions", versions)] : []),
      take));
}

// A cell of CSV. Spreadsheets run what begins with = + - @ or a tab, unless it is a plain number.
function cell(text) {
  const safe = /^'*[=+\-@\t\r\n]/.test(text) && !/^[+-]?\d+(\.\d+)?$/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
// Names and their K numbers, as CSV.
function csv(what, names, rows) {
  const heads = page.topics.map((_, k) => `topic ${k + 1}${state.names[k] ? ` ${state.names[k]}` : ""}`);
  const lines = names.map((name, i) => [cell(name), ...rows[i]].join(","));
  return [[what, ...heads].map(cell).join(","), ...lines, ""].join("\n");
}
function proportionsCsv() {
  const row = (_, i) => Array.from({ length: K }, (_, k) => Number(proportion(i, k).toFixed(6)));
  return csv("sample", samples.names, samples.names.map(row));
}
function topicsCsv() {
  const rows = features.names.map(() => new Array(K).fill(0));
  features.topics.forEach(({ places, logs }, k) => {
    places.forEach((place, i) => { if (logs[i] > -Infinity) rows[place][k] = Math.exp(logs[i]).toPrecision(5); });
  });
  return csv("feature", features.names, rows);
}
function download(name, text, type = "text/csv") {
  const address = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  const link = el("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
