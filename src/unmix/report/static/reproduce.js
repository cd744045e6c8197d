// How to make this fit again, and its numbers to take away.

function showReproduce() {
  const { command, python, params, versions, data } = page.reproduce;
  const card = $("reproduce");
  const code = (title, text) => el("div", {},
    el("h3", {}, title, el("button", { type: "button", class: "small", "aria-label": `Copy: ${title}`, onclick: (event) => copyText(text, event.currentTarget) }, "Copy")),
    el("pre", {}, el("code", {}, text)));
  const table = (title, pairs) => {
    const list = el("dl", { class: "facts" });
    definitions(list, pairs);
    return el("div", {}, el("h3", {}, title), list);
  };
  const take = el("div", { class: "controls" },
    el("h3", {}, "Take the numbers along"),
    el("div", { class: "row" },
      el("button", { type: "button", id: "download-proportions", onclick: () => download("proportions.csv", proportionsCsv()) }, "Proportions (CSV)"),
      el("button", { type: "button", id: "download-topics", onclick: () => download("topics.csv", topicsCsv()) }, "Topics (CSV)")),
    el("p", { class: "hint" }, "As this page holds them: proportions to 1/65535, weights to 0.03%. Names that a spreadsheet would take for a formula get an apostrophe in front."),
    ...page.notes.map((note) => el("p", { class: "hint" }, note)));
  card.append(
    el("div", { class: "title-row" }, el("h2", { id: "reproduce-title" }, "Reproduce")),
    el("div", { class: "columns" },
      ...(command ? [code("Command line", command)] : []),
      code("Python", python),
      table("Data", [["shape", `${counted(N_ALL, "sample")} × ${counted(M_ALL, "feature")}`], ...data]),
      table("Parameters", [["model", page.model], ...params]),
      ...(versions.length ? [table("Versions", versions)] : []),
      take));
}

// A cell of CSV. Spreadsheets run what begins with = + - @ or a tab, unless it is a plain number.
function cell(text) {
  const safe = /^[=+\-@\t\r]/.test(text) && !/^[+-]?\d+(\.\d+)?$/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
const topicHeads = () => Array.from({ length: K }, (_, k) => cell(state.names[k] ? `topic ${k + 1} ${state.names[k]}` : `topic ${k + 1}`));

function proportionsCsv() {
  const lines = [["sample", ...topicHeads()].join(",")];
  for (let i = 0; i < samples.n; i++) {
    const parts = Array.from({ length: K }, (_, k) => String(Number(proportion(i, k).toFixed(6))));
    lines.push([cell(samples.names[i]), ...parts].join(","));
  }
  return lines.join("\n") + "\n";
}
function topicsCsv() {
  const table = features.names.map(() => new Array(K).fill("0"));
  features.topics.forEach(({ places, logs }, k) => places.forEach((place, i) => { if (logs[i] > -Infinity) table[place][k] = Math.exp(logs[i]).toPrecision(5); }));
  return [["feature", ...topicHeads()].join(","), ...table.map((row, j) => [cell(features.names[j]), ...row].join(","))].join("\n") + "\n";
}
function download(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  const link = el("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
