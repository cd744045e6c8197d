// The header, the theme, printing, and the first drawing of everything.

const EVERYTHING = new Set([...Object.keys(DEFAULTS), "names"]);
const darkSystem = matchMedia("(prefers-color-scheme: dark)");
const printing = matchMedia("print");
let onPaper = false;
const isDark = () => (state.theme ? state.theme === "dark" : darkSystem.matches);

function showHeader() {
  $("title").textContent = page.title;
  const inBold = (text) => text.split(/(-?\d[\d,.]*)/).map((part, i) => (i % 2 ? el("b", {}, minus(part)) : part));
  $("facts").append(...page.glance.map((text, i) =>
    el("li", {}, i === page.glance.length - 1 ? el("span", { class: `dot ${page.status}` }) : null, ...inBold(text))));
  $("advice").hidden = page.advice.length === 0;
  $("advice").append(...remarks(page.advice));
  $("theme").addEventListener("click", () => update({ theme: isDark() ? "light" : "dark" }));
  $("skip").addEventListener("click", () => (K === 1 ? $("topic-title") : $("stage")).focus());
  $("share").hidden = location.protocol === "about:"; // inside a notebook
  $("share").addEventListener("click", () => copyText(location.href, $("share")));
  const measure = () => {
    const stuck = getComputedStyle($("top")).position === "sticky";
    document.documentElement.style.setProperty("--below-header", `${(stuck ? $("top").offsetHeight : 0) + 16}px`);
  };
  new ResizeObserver(measure).observe($("top"));
}

// The sections of this page, each with the words of its heading, and which of them is on the screen.
function listSections() {
  const heads = [...document.querySelectorAll("main > .card:not([hidden], #sample) h2")];
  const buttons = new Map(heads.map((head) => [head.closest(".card"), button("quiet small", head.textContent, () => {
    head.tabIndex = -1;
    head.closest(".card").scrollIntoView({ block: "start", behavior: calm() ? "auto" : "smooth" });
    head.focus({ preventScroll: true });
  })]));
  $("sections").append(...buttons.values());
  const seen = new Map();
  const watch = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) seen.set(target, isIntersecting);
    const first = [...buttons.keys()].find((card) => seen.get(card));
    for (const [card, link] of buttons) link.setAttribute("aria-current", String(card === first));
  }, { rootMargin: "-25% 0px -45% 0px" });
  for (const card of buttons.keys()) watch.observe(card);
}

function applyTheme() {
  const theme = onPaper ? "light" : state.theme;
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  chooseColours(isDark() && !onPaper);
  $("theme").textContent = isDark() ? "Light theme" : "Dark theme";
}

showHeader();
follow(["theme", "topic"], applyTheme);
showRail();
suggesting($("feature"), features.names, findFeature);
showStructure();
if (K === 1) {
  $("structure").hidden = true;
  $("topic-section").querySelector(".title-row").after(el("p", { class: "hint" }, "One topic: there is nothing to compare."));
}
showSample();
showScatter();
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

listSections();
readFragment();
render(EVERYTHING);
addEventListener("hashchange", () => { readFragment(); render(EVERYTHING); });
darkSystem.addEventListener("change", () => render(new Set(["theme"])));
// On paper: light colours, and the cards of all topics even when one is in focus.
function paper(on) {
  onPaper = on;
  render(new Set(on ? ["theme", "print"] : ["theme", "topic"]));
}
printing.addEventListener("change", () => paper(printing.matches)); // with the width of the paper, where browsers report it
addEventListener("beforeprint", () => paper(true));
addEventListener("afterprint", () => paper(false));
document.body.dataset.ready = "yes";
