// The header, the theme, printing, and the first drawing of everything.

const EVERYTHING = new Set([...Object.keys(DEFAULTS), "names"]);
const darkSystem = matchMedia("(prefers-color-scheme: dark)");
const printing = matchMedia("print");
const isDark = () => (state.theme ? state.theme === "dark" : darkSystem.matches);

function showHeader() {
  $("title").textContent = page.title;
  const inBold = (text) => text.split(/(-?\d[\d,.]*)/).map((part, i) => (i % 2 ? el("b", {}, minus(part)) : part));
  $("facts").append(...page.glance.map((text, i) =>
    el("li", {}, i === page.glance.length - 1 ? el("span", { class: `dot ${page.status}` }) : null, ...inBold(text))));
  $("advice").hidden = page.advice.length === 0;
  $("advice").append(...page.advice.map((text) => el("li", {}, text)));
  $("theme").addEventListener("click", () => update({ theme: isDark() ? "light" : "dark" }));
  $("skip").addEventListener("click", () => $("stage").focus());
  $("to-reproduce").addEventListener("click", () => {
    $("reproduce").scrollIntoView({ block: "start", behavior: calm() ? "auto" : "smooth" });
    $("reproduce").focus({ preventScroll: true });
  });
  const measure = () => {
    const stuck = getComputedStyle($("top")).position === "sticky";
    document.documentElement.style.setProperty("--below-header", `${(stuck ? $("top").offsetHeight : 0) + 16}px`);
  };
  new ResizeObserver(measure).observe($("top"));
}

let onPaper = false;
function applyTheme() {
  const theme = onPaper ? "light" : state.theme;
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  $("theme").textContent = isDark() ? "☀" : "☾";
  $("theme").setAttribute("aria-pressed", String(isDark()));
}

showHeader();
follow(["theme"], applyTheme);
showRail();
suggesting($("feature"), features.names, findFeature);
showStructure();
showSample();
showTopicCards();
showMap();
showTime();
showFit();
showReproduce();
showNames();
for (const name of page.sections) {
  const place = document.getElementById(`section-${name}`);
  const card = place ? place.replaceWith(place.content) : addSection(name, page[name]);
  sections[name]?.(page[name], card);
}

readFragment();
render(EVERYTHING);
addEventListener("hashchange", () => { readFragment(); render(EVERYTHING); });
darkSystem.addEventListener("change", () => render(new Set(["theme"])));
// On paper: light colours, and the cards of all topics even when one is in focus.
function paper(on) {
  onPaper = on;
  render(new Set(on ? ["theme", "print"] : ["theme", "topic"]));
}
printing.addEventListener("change", () => paper(printing.matches)); // with the widths of the paper, where it is told
addEventListener("beforeprint", () => paper(true));
addEventListener("afterprint", () => paper(false));
document.body.dataset.ready = "yes";
