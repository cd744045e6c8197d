// The data of the page, decoded once: arrays of numbers come as base64, little-endian.

const sections = {}; // of further analyses, by name: what shows their content, where the page has it
const page = JSON.parse(document.getElementById("data").textContent);
const [N_ALL, , K] = page.shape;
const LOG_STEP = 27.7 / 65534;

function bytes(text) {
  const raw = atob(text);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out.buffer;
}
const uint16 = (text) => new Uint16Array(bytes(text));

const samples = {
  names: page.samples.names,
  n: page.samples.names.length,
  sizes: new Float32Array(bytes(page.samples.sizes)),
  codes: uint16(page.samples.proportions), // proportions × 65535, K per sample
  similarity: new Uint32Array(bytes(page.samples.similarity)),
  typical: page.samples.typical,
};
samples.rank = new Uint32Array(samples.n);
samples.similarity.forEach((sample, place) => { samples.rank[sample] = place; });
const proportion = (i, k) => samples.codes[i * K + k] / 65535;

// Columns: `values` are numbers, dates in milliseconds, or numbers of levels; NaN where missing.
const columns = page.columns.map((column) => {
  if (column.kind !== "text") {
    const values = new Float64Array(bytes(column.values));
    const daily = column.kind === "date" && values.every((value) => Number.isNaN(value) || value % 86400000 === 0);
    return { ...column, values, daily };
  }
  return { ...column, values: Float64Array.from(uint16(column.codes), (code) => (code === 65535 ? NaN : code)) };
});

function valueText(column, value) {
  if (Number.isNaN(value)) return "(none)";
  if (column.kind === "text") return column.levels[value];
  if (column.kind === "date") {
    const text = new Date(value).toISOString();
    return column.daily ? text.slice(0, 10) : text.slice(0, 16).replace("T", " ");
  }
  return Number.isInteger(value) && Math.abs(value) < 1e15 ? String(value) : String(Number(value.toPrecision(6)));
}

// Features: for each topic the places of its features, log p(w|t) and their lift, and the most distinctive in their order; for
// each feature log p(w).
const logOf = (code) => (code === 0 ? -Infinity : -(code - 1) * LOG_STEP);
const features = {
  names: page.features.names,
  logs: Float64Array.from(uint16(page.features.overall), logOf),
  distinctive: page.features.distinctive,
  topics: [],
};
const overall = (feature) => Math.exp(features.logs[feature]);
{
  const steps = uint16(page.features.steps), codes = uint16(page.features.weights);
  const lifts = new Float32Array(bytes(page.features.lifts));
  let start = 0;
  for (const count of page.features.counts) {
    const places = new Uint32Array(count), logs = new Float64Array(count);
    for (let i = 0, place = 0; i < count; i++) {
      place += steps[start + i];
      places[i] = place;
      logs[i] = logOf(codes[start + i]);
    }
    features.topics.push({ places, logs, lifts: lifts.subarray(start, start + count) });
    start += count;
  }
}

// Weight and lift of a feature in a topic; nothing where the topic does not have it.
function entryOf(k, feature) {
  const { places, logs, lifts } = features.topics[k];
  let low = 0, high = places.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (places[middle] < feature) low = middle + 1;
    else high = middle;
  }
  return places[low] === feature ? { k, feature, weight: Math.exp(logs[low]), lift: lifts[low] } : null;
}

// The topics that use a feature, the largest weight first.
function topicsOf(feature) {
  const found = page.order.map((k) => entryOf(k, feature)).filter((entry) => entry !== null && entry.weight > 0);
  return found.sort((one, other) => other.weight - one.weight);
}

// The features of a topic by √share × log lift, as every table and picture of unmix has them.
const distinctive = (k, most) => features.distinctive[k].slice(0, most).map((feature) => entryOf(k, feature));

// The numbers from 0 to n − 1 with the `most` highest scores, the highest first; those without a score are left out.
function highest(n, most, scoreOf) {
  const best = [];
  for (let i = 0; i < n; i++) {
    const score = scoreOf(i);
    if (score === null || (best.length === most && score <= best[most - 1].score)) continue;
    let at = best.length;
    while (at > 0 && best[at - 1].score < score) at--;
    best.splice(at, 0, { i, score });
    if (best.length > most) best.pop();
  }
  return best;
}

// The features of a topic by λ log p(w|t) + (1 − λ) log lift, the best `most` of them.
function relevant(k, lambda, most) {
  const { places, logs, lifts } = features.topics[k];
  const relevance = (i) => (logs[i] === -Infinity ? null : lambda * logs[i] + (1 - lambda) * Math.log(lifts[i]));
  const best = highest(places.length, most, relevance);
  return best.map(({ i }) => ({ feature: places[i], weight: Math.exp(logs[i]), lift: lifts[i] }));
}

function largestTopic(i) {
  let best = page.order[0];
  for (const k of page.order) if (samples.codes[i * K + k] > samples.codes[i * K + best]) best = k;
  return best;
}
const largestTopics = (i, most) => page.order.slice().sort((a, b) => proportion(i, b) - proportion(i, a)).slice(0, most);

// The samples nearest to one, by Hellinger distance of their proportions.
function nearestSamples(i, most) {
  const roots = Array.from({ length: K }, (_, k) => Math.sqrt(proportion(i, k)));
  const affinity = (j) => (j === i ? null : roots.reduce((sum, root, k) => sum + root * Math.sqrt(proportion(j, k)), 0));
  const nearest = highest(samples.n, most, affinity);
  return nearest.map(({ i: sample, score }) => ({ sample, distance: Math.sqrt(Math.max(0, 1 - score)) }));
}
