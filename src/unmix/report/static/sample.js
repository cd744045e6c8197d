// One sample in full: all its proportions, its metadata, and the samples most like it.

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
    const known = columns.map((column) => [column.name, valueText(column, column.values[i])]);
    const size = ["expected counts", grouped(samples.sizes[i], samples.sizes[i] < 10 ? 1 : 0)];
    return el("div", {}, el("h3", {}, "About it"), facts([...known, size]));
  }
  function alike(i) {
    const near = nearestSamples(i, 6);
    if (!near.length) return null;
    const line = ({ sample, distance }) => el("li", {}, sampleLink(sample), el("span", {}, distance.toFixed(3)));
    return el("div", {}, el("h3", {}, "Most alike (Hellinger distance)"), el("ul", { class: "typical" }, ...near.map(line)));
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

// A bar of a topic's colour, and behind it a pale one; lengths as parts of the whole track.
function track(k, part, ghost = null) {
  return el("span", { class: "track", "--colour": page.topics[k].colour },
    ghost === null ? null : el("i", { class: "ghost", "--part": `${(100 * ghost).toFixed(2)}%` }),
    el("i", { class: "own", "--part": `${(100 * part).toFixed(2)}%` }));
}
