// One sample in full: all its proportions, its metadata, and the most similar samples.

function showSample() {
  const card = $("sample");
  follow(["sample", "names"], (keys) => {
    const i = state.sample;
    const opened = card.hidden && i !== null;
    card.hidden = i === null;
    if (i === null) return card.replaceChildren();
    card.replaceChildren(heading(i), el("div", { class: "detail" }, parts(i), about(i), alike(i)));
    if (opened && keys.size === 1) card.scrollIntoView({ block: "nearest", behavior: calm() ? "auto" : "smooth" });
  });

  function heading(i) {
    const step = (by) => () => {
      update({ sample: plot.sequence[(plot.place[i] + by + samples.n) % samples.n] });
      card.querySelector(by < 0 ? ".previous" : ".next").focus();
    };
    return el("div", { class: "title-row" },
      el("h2", { id: "sample-title" }, samples.names[i]),
      el("div", { class: "row controls" },
        button("small previous", "← Previous", step(-1)),
        button("small next", "Next →", step(1)),
        button("small close", "Close", () => { update({ sample: null }); $("stage").focus(); })));
  }
  function parts(i) {
    const rows = largestTopics(i, K).filter((k, place) => place === 0 || proportion(i, k) > 0);
    const most = proportion(i, rows[0]);
    return el("div", {}, el("h3", {}, "Topics"), el("table", { class: "bars" }, el("tbody", {}, ...rows.map((k) =>
      el("tr", {},
        el("td", {}, topicLink(k)),
        el("td", { class: "bar" }, track(k, proportion(i, k) / most)),
        el("td", {}, percent(proportion(i, k))))))));
  }
  function about(i) {
    const known = columns.map((column) => [column.name, column === columnCalled("snippet")
      ? tinted(valueText(column, column.values[i]), i) : valueText(column, column.values[i])]);
    const size = ["expected counts", grouped(samples.sizes[i], samples.sizes[i] < 10 ? 1 : 0)];
    return el("div", {}, el("h3", {}, "Metadata"), facts([...known, size]));
  }
  function alike(i) {
    const near = nearestSamples(i, 6);
    if (!near.length) return null;
    const line = ({ sample, distance }) => el("li", {}, sampleLink(sample), el("span", {}, distance.toFixed(3)));
    return el("div", {}, el("h3", {}, "Most similar samples (Hellinger distance)"), el("ul", { class: "typical" }, ...near.map(line)));
  }
}

const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
const button = (kind, text, onclick, more = {}) => el("button", { type: "button", class: kind, onclick, ...more }, text);
const sampleLink = (i) => button("link", samples.names[i], () => update({ sample: i }), { title: samples.names[i] });
function topicLink(k) {
  const link = button("link", nameOf(k), () => focusTopic(k), { title: nameOf(k) });
  link.prepend(swatch(k, "small"), " ");
  return link;
}

// A text of a sample, its words in the colours of the topics they are most probably of: φ is proportional to proportion × weight,
// and a colour is the stronger the surer it is. Other words, and what is between words, have no colour.
const WORD = /(\p{L}[\p{L}\p{M}\p{N}_'’]*)/u;
let placeOf = null; // of features, by name
function tinted(text, i) {
  placeOf ??= new Map(features.names.map((name, feature) => [name, feature]));
  return el("span", {}, ...text.split(WORD).map((word, part) => {
    const feature = part % 2 ? placeOf.get(word) ?? placeOf.get(word.toLowerCase().replace("’", "'").replace(/'s$/, "")) : undefined;
    if (feature === undefined) return word;
    const rates = topicsOf(feature).map(({ k, weight }) => ({ k, rate: weight * proportion(i, k) }));
    const best = rates.reduce((one, other) => (other.rate > one.rate ? other : one), { k: null, rate: 0 });
    if (best.k === null) return word;
    const phi = best.rate / rates.reduce((sum, { rate }) => sum + rate, 0);
    const strength = `${(55 * (phi * K - 1) / Math.max(1, K - 1)).toFixed(0)}%`;
    const look = { class: "tint", ...coloured(best.k), "--part": strength };
    return el("span", { ...look, title: `topic ${best.k + 1}: ${percent(phi)}` }, word);
  }));
}

// A bar of a topic's colour, and behind it a pale one; lengths as parts of the whole track.
function track(k, part, ghost = null) {
  return el("span", { class: "track", ...coloured(k) },
    ghost === null ? null : el("i", { class: "ghost", "--part": `${(100 * ghost).toFixed(2)}%` }),
    el("i", { class: "own", "--part": `${(100 * part).toFixed(2)}%` }));
}
