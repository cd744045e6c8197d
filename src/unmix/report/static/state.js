// What the reader has chosen. It lives in the fragment of the address, so that a reload, or a link, shows the same view.

const columnNamed = (name) => columns.find((column) => column.name === name);

// The first view: along time where a column tells it, else by the first column of groups, like beside like.
const firstTime = page.time.map((line) => line.column).find(columnNamed);
const firstGroups = columns.find((column) => column.groups && column.kind === "text" && column.levels.length > 1)?.name;
const DEFAULTS = {
  order: firstTime === undefined ? "similarity" : `column:${firstTime}`,
  group: firstTime === undefined ? firstGroups ?? "" : "",
  topic: null,
  sample: null,
  lambda: null, // a number ranks features by relevance, null by what is distinctive
  sort: "rank",
  theme: "",
  time: "",
};
const SORTS = ["rank", "share", "lift"];
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
  state.sort = SORTS.includes(given.get("sort")) ? given.get("sort") : DEFAULTS.sort;
  state.theme = ["light", "dark"].includes(given.get("theme")) ? given.get("theme") : "";
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
  return page.topics.map(({ colour }, k) => (bright(k) ? channels(colour) : mixed(colour, surface, 0.22)));
}
