// A copy of the page that keeps the names of topics: the markup as it came, with the names among its data.

const asItCame = document.documentElement.cloneNode(true);
asItCame.querySelector("#data").textContent = "";

function copyOfPage() {
  const data = JSON.stringify({ ...page, names: state.names });
  const safe = data.replace(/[<>&\u2028\u2029]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
  const copy = asItCame.cloneNode(true);
  copy.querySelector("#data").textContent = safe;
  return `<!doctype html>\n${copy.outerHTML}\n`;
}
const namesJson = () =>
  JSON.stringify(Object.fromEntries(Object.entries(state.names).map(([k, name]) => [Number(k) + 1, name])), null, 2) + "\n";

function showNames() {
  const save = () => download("report.html", copyOfPage(), "text/html");
  $("save-copy").addEventListener("click", save);
  $("save-copy-here").addEventListener("click", save);
  $("download-names").addEventListener("click", () => download("names.json", namesJson(), "application/json"));
  follow(["names"], () => {
    const own = Object.keys({ ...state.names, ...GIVEN_NAMES }).some((k) => state.names[k] !== GIVEN_NAMES[k]);
    $("save-copy").hidden = !own;
    $("names-kept").hidden = !own;
  });
}
