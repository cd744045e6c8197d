// The list of topics, their features and typical samples, and the search for a feature.

function showRail() {
  const list = $("topics"), filter = $("topic-filter"), more = $("more-topics"), narrow = matchMedia("(max-width: 860px)");
  const few = () => (onPaper ? K : narrow.matches ? 5 : SIZE_OF_PAGE);
  const heaviest = Math.max(...page.topics.map(({ share }) => share));
  const items = new Map(page.order.map((k) => [k, item(k)]));
  let all = false; // or the first ones, and those in focus
  $("topic-tools").hidden = K <= MOST_COLOURS;
  sortedBy($("topic-sort"));
  const visible = () => listed().filter((k) => !items.get(k).hidden);
  $("unfocus").addEventListener("click", () => {
    update({ topic: null });
    items.get(visible()[0]).querySelector(".topic").focus();
  });
  filter.addEventListener("input", choose);
  more.addEventListener("click", () => { all = !all; choose(); });
  narrow.addEventListener("change", choose);
  list.addEventListener("keydown", (event) => {
    const rows = visible(), at = rows.findIndex((k) => items.get(k).contains(event.target));
    if (event.target.matches("input")) return;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (to !== undefined && rows[to] !== undefined) {
      event.preventDefault();
      items.get(rows[to]).querySelector(".topic").focus();
    } else if (event.key === "F2") {
      event.preventDefault();
      edit(rows[at]);
    }
  });
  // the list is one stop of the Tab key; arrows move inside
  const stop = (k) => { for (const [other, row] of items) row.querySelector(".topic")?.setAttribute("tabindex", other === k ? 0 : -1); };
  list.addEventListener("focusin", (event) => stop([...items.keys()].find((k) => items.get(k).contains(event.target))));
  follow(["topic", "names", "list", "print"], (keys) => {
    list.classList.toggle("some", state.topic !== null);
    $("unfocus").hidden = state.topic === null;
    $("topic-sort").value = state.list;
    if (keys.has("list")) list.append(...listed().map((k) => items.get(k)));
    for (const [k, row] of items) {
      row.classList.toggle("focused", state.topic === k);
      row.querySelector(".topic").setAttribute("aria-pressed", String(state.topic === k));
      row.querySelector(".name").textContent = nameOf(k);
      row.querySelector(".topic").title = `${nameOf(k)}: ${page.topics[k].said.share} of all counts, mean proportion ${page.topics[k].said.mean}`
        + (page.topics[k].known ? `; ${page.topics[k].known}` : "");
      row.querySelector(".rename").setAttribute("aria-label", `Rename topic ${k + 1}, ${nameOf(k)}`);
    }
    choose();
  });

  function choose() {
    const text = filter.value.trim().toLowerCase();
    const matches = (k) => [String(k + 1), nameOf(k), ...features.distinctive[k].map((feature) => features.names[feature])]
      .some((name) => name.toLowerCase().includes(text));
    listed().forEach((k, place) => {
      items.get(k).hidden = text ? !matches(k) : !all && place >= few() && state.topic !== k;
    });
    more.hidden = K <= few() || text !== "";
    more.textContent = all ? "Show fewer" : `Show ${K - few()} more topics`;
    const shown = visible();
    if (!shown.some((k) => items.get(k).querySelector(".topic[tabindex='0']"))) stop(shown[0]);
  }
  function item(k) {
    const { share, said } = page.topics[k];
    return el("li", coloured(k),
      el("button", { type: "button", class: "topic", onclick: () => focusTopic(k) },
        swatch(k), el("span", { class: "name" }), el("span", { class: "share" }, said.share),
        el("span", { class: "meter", "--part": `${(100 * share) / heaviest}%` })),
      el("button", { type: "button", class: "rename", tabindex: -1, onclick: () => edit(k) }, "✎"));
  }
  function edit(k) {
    const row = items.get(k), input = nameField(k);
    const parts = [...row.children];
    let open = true;
    const close = (keep) => {
      if (!open) return;
      open = false;
      row.replaceChildren(...parts);
      if (keep) rename(k, input.value);
      row.querySelector(".topic").focus();
    };
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== "Escape") return;
      event.preventDefault();
      close(event.key === "Enter");
    });
    input.addEventListener("blur", () => close(true));
    row.replaceChildren(swatch(k), input);
    input.select();
  }
}

const nameField = (k) =>
  el("input", { type: "text", maxlength: 80, "aria-label": `Name of topic ${k + 1}`, value: nameOf(k) });

const FIRST_LAMBDA = 0.3;

function showTopicCards() {
  const section = $("topic-section"), ranking = $("rank"), slider = $("lambda");
  let waiting = 0, first = 0;
  $("topic-view-label").hidden = K <= 1;
  $("topic-view").addEventListener("change", (event) => update({ view: event.target.value }));
  ranking.addEventListener("change", () => update({ lambda: ranking.value === "relevance" ? FIRST_LAMBDA : null }));
  slider.addEventListener("input", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => update({ lambda: Number(slider.value) }));
  });
  follow(["topic", "names", "lambda", "sort", "print", "list", "view"], (keys) => {
    const one = state.topic !== null, onPaper = keys.has("print");
    ranking.value = state.lambda === null ? "distinctive" : "relevance";
    $("relevance").hidden = state.lambda === null;
    slider.value = state.lambda ?? FIRST_LAMBDA;
    $("lambda-value").textContent = Number(slider.value).toFixed(2);
    $("topic-view").value = state.view;
    $("topic-title").textContent = one ? `Topic ${state.topic + 1}` : "Topics";
    const inside = section.contains(document.activeElement);
    // the reader who renames the topic in its card continues there, so the card stays
    if (keys.size > 1 || !keys.has("names") || !one) $("topic-focus").replaceChildren(...(one ? [wideCard(state.topic)] : []));
    else $("topic-focus").querySelector("input").value = nameOf(state.topic);
    if (keys.has("list")) first = 0;
    const shown = onPaper ? listed() : one ? [] : listed().slice(first, first + SIZE_OF_PAGE);
    const cards = onPaper || state.view === "cards";
    $("topic-all").classList.toggle("cards", cards);
    $("topic-all").replaceChildren(...(cards ? shown.map(smallCard) : one ? [] : [topicTable()]));
    const turning = one || onPaper || !cards ? null : pager("topics", K, first, (place) => {
      first = place;
      render(new Set(["list-page", "lambda"]));
      $("topic-title").focus();
    });
    $("topic-pages").replaceChildren(...(turning ? [turning] : []));
    if (inside && !section.contains(document.activeElement)) $("topic-title").focus(); // what was in focus is gone
  });

  const best = (k, most) => (state.lambda === null ? distinctive(k, most) : relevant(k, state.lambda, most));
  const words = (k) => best(k, 8).map(({ feature }) => features.names[feature]).join(", ");
  // All topics in a row each: shares, words, marks, and their mean proportions over time.
  function topicTable() {
    const marks = page.stability || page.freedom, heads = ["topic", "% of counts", "mean %", ...(marks ? ["marks"] : []), "features", ...(page.time.length ? [page.time[0].column] : [])];
    const row = (k) => el("tr", { "data-topic": k + 1 }, el("th", { scope: "row" }, topicLink(k)), el("td", {}, page.topics[k].said.share),
      el("td", {}, page.topics[k].said.mean), marks ? el("td", {}, stabilityMark(k), " ", freedomMark(k)) : null,
      el("td", { class: "words" }, words(k)), page.time.length ? el("td", {}, spark(k)) : null);
    const save = button("small quiet", "CSV", () => saveTable("topics", ["topic", "name", "share", "mean", "features"],
      listed().map((k) => [k + 1, nameOf(k), page.topics[k].share, page.topics[k].mean, words(k)])), { "aria-label": "Download table of topics as CSV" });
    return el("div", {}, scrolling("Table of topics", el("table", { class: "grid topic-table" },
      el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, ...listed().map(row)))),
      el("span", { class: "corner controls" }, save));
  }
  function rows(k, most) {
    const found = best(k, most), by = { share: "weight", lift: "lift" }[state.sort];
    if (by) found.sort((one, other) => other[by] - one[by]);
    const longest = Math.max(...found.map(({ feature, weight }) => Math.max(weight, overall(feature))), 1e-300);
    return found.map(({ feature, weight, lift }) => el("tr", {},
      el("td", nameOfCell(k, feature), featureLink(feature)),
      el("td", { class: "bar", title: `${percent(weight)} in the topic, ${percent(overall(feature))} in all counts` },
        track(k, weight / longest, K === 1 ? null : overall(feature) / longest)),
      el("td", {}, percent(weight)), K === 1 ? null : el("td", {}, times(lift))));
  }
  function nameOfCell(k, feature) {
    const name = features.names[feature];
    if (sureMarks === null) return { title: name };
    return surelyMore(k, feature) ? { class: "surely", title: `${name}: significantly more frequent than in other topics` } : { class: "unsure", title: name };
  }
  function typical(k, most) {
    const text = (name, i) => {
      const column = columnCalled(name);
      return column && !Number.isNaN(column.values[i]) ? column.levels[column.values[i]] : "";
    };
    return el("ul", { class: "typical" }, ...samples.typical[k].slice(0, most).sort((i, j) => proportion(j, k) - proportion(i, k)).flatMap((i) => {
      const [title, snippet] = [text("title", i), text("snippet", i)], link = sampleLink(i);
      const own = title === "" || samples.names[i].replace(/-\d+$/, "") === title || samples.names[i] === title;
      if (!own) link.textContent = `${samples.names[i]} · ${title}`;
      link.title = link.textContent;
      const line = el("li", {}, link, el("span", {}, percent(proportion(i, k))));
      return snippet ? [line, el("li", {}, el("span", { class: "snippet" }, tinted(snippet, i)))] : [line];
    }));
  }
  // The share of all counts, to which large samples contribute more, and the mean over samples; then results of further analyses.
  function known(k) {
    const { said, known: before } = page.topics[k];
    return el("p", { class: "topic-known" }, el("span", { class: "share" }, `${said.share} of all counts`),
      el("span", {}, `mean proportion ${said.mean}`),
      before ? el("span", { class: "before" }, before) : null, stabilityMark(k, true), freedomMark(k));
  }
  function smallCard(k) {
    return el("article", { class: "topic-card", ...coloured(k), "aria-label": `Topic ${k + 1}` },
      el("div", { class: "topic-head" }, swatch(k),
        button("link", nameOf(k), () => focusTopic(k), { title: nameOf(k) })),
      known(k), signatureBars(k),
      el("table", { class: "bars" }, el("tbody", {}, ...rows(k, 8))),
      ...(K > 1 ? [el("h3", { class: "over-list" }, "Typical samples"), typical(k, 3)] : []));
  }
  function wideCard(k) {
    const input = nameField(k);
    input.addEventListener("change", () => rename(k, input.value));
    const sortBy = (key) => {
      update({ sort: key });
      document.querySelector("#topic-focus th[aria-sort='descending'] button").focus();
    };
    const sortable = SORTS.map((key) =>
      el("th", { scope: "col", "aria-sort": state.sort === key ? "descending" : "none" }, button("", key, () => sortBy(key))));
    return el("div", { class: "wide-card", ...coloured(k) },
      el("div", { class: "topic-head" }, swatch(k), input),
      el("div", { class: "whole" }, known(k), signatureBars(k)),
      el("table", { class: "bars" },
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "feature"), ...sortable)),
        el("tbody", {}, ...rows(k, 30))),
      el("div", {}, el("h3", {}, "Most typical samples"), typical(k, 12)));
  }
}

function sortedBy(select) {
  select.append(...Object.keys(LISTS).map((order) => el("option", {}, order)));
  select.addEventListener("change", () => update({ list: select.value }));
}

// Which topics use a feature: its share in each, and the lift. All of it in the rail, or on a tip beside the feature.
const featureLink = (feature) => button("link", features.names[feature], () => findFeature(feature), { "data-feature": feature });
function findFeature(feature) {
  const found = topicsOf(feature);
  const row = ({ k, weight, lift }) => {
    const link = button("link", "", () => focusTopic(k), { "aria-label": `Topic ${k + 1}, ${nameOf(k)}`, title: nameOf(k) });
    link.append(swatch(k, "small"));
    return el("tr", { "data-topic": k + 1 },
      el("td", {}, link),
      el("td", { class: "bar" }, track(k, weight / found[0].weight)),
      el("td", {}, percent(weight)),
      el("td", {}, times(lift)));
  };
  $("feature").value = features.names[feature];
  $("feature-found").replaceChildren(
    el("h3", {}, features.names[feature]),
    el("p", { class: "hint" }, `${percent(overall(feature))} of all counts. Share in each topic, and lift:`),
    el("table", { class: "bars" }, el("tbody", {}, ...found.map(row))));
}
function featureTip(feature) {
  const found = topicsOf(feature), most = 10;
  return [el("b", {}, features.names[feature]), el("div", { class: "about" }, `${percent(overall(feature))} of all counts; share in topics, and lift`),
    el("ul", { class: "shares" }, ...found.slice(0, most).map(({ k, weight, lift }) => el("li", {}, swatch(k, "small"), track(k, weight / found[0].weight),
      el("span", {}, `${percent(weight)} · ${times(lift)}`)))),
    found.length > most ? el("div", { class: "about" }, `and ${found.length - most} more`) : ""];
}
for (const event of ["pointerover", "focusin"]) document.body.addEventListener(event, ({ target, pointerType }) => {
  const link = target.closest("[data-feature]");
  if (!link || pointerType === "touch" || !link.matches(":hover, :focus-visible")) return;
  const { right, top } = link.getBoundingClientRect();
  showTip(right, top, ...featureTip(Number(link.dataset.feature)));
});
for (const event of ["pointerout", "focusout"]) document.body.addEventListener(event, ({ target }) => { if (target.closest("[data-feature]")) hideTip(); });
