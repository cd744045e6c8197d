// The list of topics, what is in them, and the search for a feature.

function showRail() {
  const list = $("topics");
  const heaviest = Math.max(...page.topics.map(({ share }) => share));
  const items = new Map(page.order.map((k) => [k, item(k)]));
  list.append(...items.values());
  $("unfocus").addEventListener("click", () => {
    update({ topic: null });
    items.get(page.order[0]).querySelector(".topic").focus();
  });
  list.addEventListener("keydown", (event) => {
    const rows = [...items.keys()], at = rows.findIndex((k) => items.get(k).contains(event.target));
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
  follow(["topic", "names"], () => {
    list.classList.toggle("some", state.topic !== null);
    $("unfocus").hidden = state.topic === null;
    for (const [k, row] of items) {
      row.classList.toggle("focused", state.topic === k);
      row.querySelector(".topic").setAttribute("aria-pressed", String(state.topic === k));
      row.querySelector(".name").textContent = nameOf(k);
      row.querySelector(".topic").title = `${nameOf(k)}: ${page.topics[k].said.share} of all counts, ${page.topics[k].said.mean} of a sample on average`;
      row.querySelector(".rename").setAttribute("aria-label", `Rename topic ${k + 1}, ${nameOf(k)}`);
    }
  });

  function item(k) {
    const { colour, share, said } = page.topics[k];
    return el("li", { "--colour": colour },
      el("button", { type: "button", class: "topic", onclick: () => focusTopic(k) },
        swatch(k), el("span", { class: "name" }), el("span", { class: "share" }, said.share),
        el("span", { class: "meter", "--part": `${(100 * share) / heaviest}%`, "--colour": colour })),
      el("button", { type: "button", class: "rename", onclick: () => edit(k) }, "✎"));
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
  let waiting = 0;
  ranking.addEventListener("change", () => update({ lambda: ranking.value === "relevance" ? FIRST_LAMBDA : null }));
  slider.addEventListener("input", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => update({ lambda: Number(slider.value) }));
  });
  follow(["topic", "names", "lambda", "sort", "print"], (keys) => {
    ranking.value = state.lambda === null ? "distinctive" : "relevance";
    $("relevance").hidden = state.lambda === null;
    slider.value = state.lambda ?? FIRST_LAMBDA;
    $("lambda-value").textContent = Number(slider.value).toFixed(2);
    $("topic-title").textContent = state.topic === null ? "What is in the topics" : `What is in topic ${state.topic + 1}`;
    const inside = section.contains(document.activeElement);
    // whoever renames the topic in its card goes on from there, so the card stays
    if (keys.size > 1 || !keys.has("names") || state.topic === null)
      $("topic-focus").replaceChildren(...(state.topic === null ? [] : [wideCard(state.topic)]));
    else $("topic-focus").querySelector("input").value = nameOf(state.topic);
    $("topic-all").replaceChildren(...(state.topic === null || keys.has("print") ? page.order.map(smallCard) : []));
    if (inside && !section.contains(document.activeElement)) $("topic-title").focus(); // what was in focus is gone
  });

  function rows(k, most) {
    const best = state.lambda === null ? distinctive(k, most) : relevant(k, state.lambda, most);
    const by = { share: "weight", lift: "lift" }[state.sort];
    if (by) best.sort((one, other) => other[by] - one[by]);
    const longest = Math.max(...best.map(({ feature, weight }) => Math.max(weight, overall(feature))), 1e-300);
    return best.map(({ feature, weight, lift }) => el("tr", {},
      el("td", nameOfCell(k, feature), button("link", features.names[feature], () => findFeature(feature))),
      el("td", { class: "bar", title: `${percent(weight)} in the topic, ${percent(overall(feature))} in all counts` },
        track(k, weight / longest, overall(feature) / longest)),
      el("td", {}, percent(weight)), el("td", {}, times(lift))));
  }
  function nameOfCell(k, feature) {
    const name = features.names[feature];
    if (sureMarks === null) return { title: name };
    return surelyMore(k, feature) ? { class: "surely", title: `${name}: surely more than in other topics` } : { class: "unsure", title: name };
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
  // The share of all counts, to which large samples add more, and the mean of all samples alike; then what further analyses say.
  function known(k) {
    const { said } = page.topics[k];
    return el("p", { class: "topic-known" }, el("span", { class: "share" }, `${said.share} of counts`),
      el("span", { title: "mean proportion: every sample counts alike" }, `${said.mean} of a sample`),
      stabilityMark(k, true), freedomMark(k));
  }
  function smallCard(k) {
    return el("article", { class: "topic-card", "--colour": page.topics[k].colour, "aria-label": `Topic ${k + 1}` },
      el("div", { class: "topic-head" }, swatch(k),
        button("link", nameOf(k), () => focusTopic(k), { title: nameOf(k) })),
      known(k), signatureBars(k),
      el("table", { class: "bars" }, el("tbody", {}, ...rows(k, 8))),
      el("h3", { class: "over-list" }, "Typical samples"), typical(k, 3));
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
    return el("div", { class: "wide-card", "--colour": page.topics[k].colour },
      el("div", { class: "topic-head" }, swatch(k), input),
      el("div", { class: "whole" }, known(k), signatureBars(k)),
      el("table", { class: "bars" },
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "feature"), ...sortable)),
        el("tbody", {}, ...rows(k, 30))),
      el("div", {}, el("h3", {}, "Most typical samples"), typical(k, 12)));
  }
}

// Which topics use a feature: its share in each, and the lift.
function findFeature(feature) {
  const found = topicsOf(feature);
  const most = found.length ? found[0].weight : 1;
  const row = ({ k, weight, lift }) => {
    const link = button("link", "", () => focusTopic(k), { "aria-label": `Topic ${k + 1}, ${nameOf(k)}`, title: nameOf(k) });
    link.append(swatch(k, "small"));
    return el("tr", { "data-topic": k + 1 },
      el("td", {}, link),
      el("td", { class: "bar" }, track(k, weight / most)),
      el("td", {}, percent(weight)),
      el("td", {}, times(lift)));
  };
  $("feature").value = features.names[feature];
  $("feature-found").replaceChildren(
    el("h3", {}, features.names[feature]),
    el("p", { class: "hint" }, `${percent(overall(feature))} of all counts. Share in each topic, and lift:`),
    el("table", { class: "bars" }, el("tbody", {}, ...found.map(row))));
}
