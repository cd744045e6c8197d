// Stability: a row per topic with its numbers, and a mark for its card.

const VERDICTS = { stable: "●", unsure: "◐", unstable: "○", empty: "∅" };
const RUNS_OF = { halves: "halves of the counts", bootstrap: "resampled counts", none: "the same counts with other random seeds" };

const wholePercent = (part) => `${(100 * part).toFixed(0)}%`;

sections.stability = (content) => {
  const two = (value) => (value === null ? "–" : minus(value.toFixed(2)));
  const rows = page.order.map((k) => {
    const { stability, floor, margin, recall } = content.topics[k];
    const bar = el("td", { class: "bar", title: `stability ${two(stability)}; of unrelated topics ${two(floor)}` },
      track(k, stability ?? 0, floor ?? 0));
    return el("tr", { "data-topic": k + 1 }, el("td", {}, topicLink(k)), el("td", {}, stabilityMark(k, true)), bar,
      el("td", {}, two(stability)), el("td", {}, recall === null ? "–" : wholePercent(recall)), el("td", {}, two(margin)));
  });
  const heads = ["topic", "verdict", "similarity", "stability", "recall", "margin"];
  const texts = () => page.order.map((k) => [k + 1, ...["verdict", "stability", "recall", "margin", "floor"].map((name) => content.topics[k][name] ?? "")]);
  $("stability").querySelector(".title-row").append(el("div", { class: "row controls" }, button("small quiet", "CSV",
    () => saveTable("stability", ["topic", "verdict", "stability", "recall", "margin", "floor"], texts()), { "aria-label": "Download stability as CSV" })));
  $("stability-rows").append(el("table", { class: "bars" },
    el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, ...rows)));
  $("stability-runs").textContent = `${counted(content.runs, "independent fit")} to ${RUNS_OF[content.noise]}.`;
  $("stability-advice").append(...remarks(content.advice));
  follow(["names"], () => page.order.forEach((k, place) => rows[place].cells[0].replaceChildren(topicLink(k))));
};

// A mark, with words on hover or beside it, of how stable a topic is; nothing where that is not known.
function stabilityMark(k, inWords = false) {
  const known = page.stability?.topics[k];
  if (!known) return null;
  const { verdict, recall } = known;
  const found = recall === null ? "" : `: recovered in ${wholePercent(recall)} of pairs of runs`;
  const about = { class: `verdict ${verdict}`, title: verdict + found, role: "img", "aria-label": verdict + found };
  return el("span", about, VERDICTS[verdict] + (inWords ? ` ${verdict}` : ""));
}
