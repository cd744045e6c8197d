// What the reader has chosen. It is stored in the fragment of the URL, so that a reload, or a link, shows the same view.

const columnNamed = (name) => columns.find((column) => column.name === name);

// The first view: over time where a column has it, else by the first column of groups, similar samples next to each other.
const firstTime = page.time.map((line) => line.column).find(columnNamed);
const firstGroups = columns.find((column) => column.groups && column.kind === "text" && column.levels.length > 1)?.name;
const SORTS = ["rank", "share", "lift"];
const MOST_COLOURS = 12; // topics with colours of their own
const LISTS = { weight: page.order, similarity: page.map.order };
if (page.stability) {
  const stable = (k) => page.stability.topics[k].stability ?? -1;
  LISTS.stability = page.order.slice().sort((a, b) => stable(b) - stable(a));
}
const listed = () => LISTS[state.list];
const DEFAULTS = {
  order: firstTime === undefined ? "similarity" : `column:${firstTime}`,
  group: firstTime === undefined ? firstGroups ?? "" : "",
  topic: null,
  sample: null,
  lambda: null, // a number ranks features by relevance, null by what is distinctive
  sort: "rank",
  theme: "",
  time: "",
  areas: K <= MOST_COLOURS ? "stacked" : "separate", // over time
  list: "weight", // the order of topics in lists
  view: "cards", // of topics
  colour: "", // of samples on their map: a column, or largest topics
};
const CHOICES = { sort: SORTS, theme: ["light", "dark"], areas: ["stacked", "separate"], list: Object.keys(LISTS), view: ["cards", "table"] };
const GIVEN_NAMES = page.names ?? {}; // of topics, by place: those that came with the page
const state = { ...DEFAULTS, names: { ...GIVEN_NAMES } };
const views = []; // functions of the set of keys that changed
const render = (keys) => views.forEach((view) => view(keys));
// Draw whenever one of these keys has changed.
const follow = (keys, draw) => views.push((changed) => { if (keys.some((key) => changed.has(key))) draw(changed); });

// A number from 1 to `most`, as a place from 0; null for anything else.
function whole(text, most) {
  return /^\d+$/.test(text ?? "") && Number(text) >= 1 && Number(text) <= most ? Number(text) - 1 : null;
}

const columnOfOrder = (order) => (order.startsWith("column:") ? columnNamed(order.slice("column:".length)) : undefined);

function orderKnown(order) {
  if (columnOfOrder(order)) return true;
  if (order.startsWith("topic:")) return whole(order.slice("topic:".length), K) !== null;
  return order === "similarity" || order === "file";
}

function readFragment() {
  const given = new URLSearchParams(location.hash.slice(1));
  state.order = orderKnown(given.get("order") ?? "") ? given.get("order") : DEFAULTS.order;
  const group = given.get("group") ?? DEFAULTS.group;
  state.group = columnNamed(group)?.groups ? group : "";
  state.topic = whole(given.get("topic"), K);
  state.sample = whole(given.get("sample"), samples.n);
  const lambda = Number(given.get("lambda") ?? NaN);
  state.lambda = lambda >= 0 && lambda <= 1 ? lambda : DEFAULTS.lambda;
  for (const [key, known] of Object.entries(CHOICES)) state[key] = known.includes(given.get(key)) ? given.get(key) : DEFAULTS[key];
  state.colour = columnNamed(given.get("colour"))?.groups ? given.get("colour") : "";
  state.time = page.time.some((line) => line.column === given.get("time")) ? given.get("time") : "";
  state.names = { ...GIVEN_NAMES };
  for (let k = 0; k < K; k++) if (given.get(`name${k + 1}`)) state.names[k] = given.get(`name${k + 1}`).slice(0, 80);
}

function writeFragment() {
  const given = new URLSearchParams();
  for (const [key, usual] of Object.entries(DEFAULTS)) {
    if (state[key] === usual) continue;
    given.set(key, key === "topic" || key === "sample" ? state[key] + 1 : state[key]);
  }
  for (let k = 0; k < K; k++) {
    if ((state.names[k] ?? "") !== (GIVEN_NAMES[k] ?? "")) given.set(`name${k + 1}`, state.names[k] ?? usualName(k));
  }
  const text = given.toString();
  try {
    history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
  } catch { /* a page without an address of its own, such as one inside a frame: the view cannot be kept */ }
}

function update(changes) {
  Object.assign(state, changes);
  writeFragment();
  render(new Set(Object.keys(changes)));
}

const usualName = (k) => distinctive(k, 3).map(({ feature }) => features.names[feature]).join(", ") || "no features";
const nameOf = (k) => state.names[k] ?? usualName(k);
const focusTopic = (k) => update({ topic: state.topic === k ? null : k });
function rename(k, name) {
  const names = { ...state.names };
  const text = name.trim().slice(0, 80);
  if (text && (text !== usualName(k) || GIVEN_NAMES[k])) names[k] = text;
  else delete names[k];
  update({ names });
}
// Topics from the bottom of a stack to its top: the one in focus first.
const stackOrder = () => (state.topic === null ? page.order : [state.topic, ...page.order.filter((k) => k !== state.topic)]);
// The colour of each topic on a background; those out of focus are pale.
function shownColours() {
  const surface = themed("--surface");
  const bright = (k) => state.topic === null || state.topic === k;
  return colours.map((colour, k) => (bright(k) ? channels(colour) : mixed(colour, surface, 0.22)));
}
// Colours of the current theme. A topic beyond the palette has a colour while it is in focus.
function chooseColours(dark) {
  const rest = new Set(page.order.slice(MOST_COLOURS));
  colours = page.topics.map((topic, k) => (rest.has(k) && state.topic === k ? themedHex("--ink") : dark ? topic.dark : topic.colour));
  colours.forEach((colour, k) => {
    document.documentElement.style.setProperty(`--topic-${k}`, colour);
    document.documentElement.style.setProperty(`--on-topic-${k}`, readableOn(colour));
  });
}
const groupColour = (place) => page.palettes[Number(isDark() && !onPaper)][place] ?? themedHex("--muted");
const themedHex = (name) => `#${channels(themed(name)).map((part) => part.toString(16).padStart(2, "0")).join("")}`;
