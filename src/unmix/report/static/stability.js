// Which topics are found again: a row for each with its numbers, and a mark for its card.

const VERDICTS = { stable: "●", unsure: "◐", unstable: "○", empty: "∅" };
const RUNS_OF = { halves: "halves of the counts", bootstrap: "counts drawn anew", none: "other starts" };

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
  const heads = ["topic", "", "stability", "", "recall", "margin"];
  $("stability-rows").append(el("table", { class: "bars" },
    el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, ...rows)));
  $("stability-runs").textContent = `${counted(content.runs, "fit")}, each from scratch, to ${RUNS_OF[content.noise]}.`;
  $("stability-advice").append(...content.advice.map((text) => el("li", {}, text)));
  follow(["names"], () => page.order.forEach((k, place) => rows[place].cells[0].replaceChildren(topicLink(k))));
};

// A mark, with words on hover or beside it, of how stable a topic is; nothing where that is not known.
function stabilityMark(k, inWords = false) {
  const known = page.stability?.topics[k];
  if (!known) return null;
  const { verdict, recall } = known;
  const found = recall === null ? "" : `: found again in ${wholePercent(recall)} of pairs of runs`;
  const about = { class: `verdict ${verdict}`, title: verdict + found, role: "img", "aria-label": verdict + found };
  return el("span", about, VERDICTS[verdict] + (inWords ? ` ${verdict}` : ""));
}
