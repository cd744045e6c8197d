// Elements, numbers as text, colours, tips, and fields with suggestions. Names become text nodes only.

const $ = (id) => document.getElementById(id);

function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key.startsWith("--")) node.style.setProperty(key, value);
    else if (value === true || value === false) node.toggleAttribute(key, value);
    else if (value !== undefined && value !== null) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function svg(tag, properties = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(properties)) node.setAttribute(key, value);
  node.append(...children.filter((child) => child !== null));
  return node;
}

const grouped = (number, digits = 0) =>
  number.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const counted = (number, thing) => `${grouped(number)} ${thing}${number === 1 ? "" : "s"}`;
const minus = (text) => text.replace("-", "−");
function percent(part) {
  const hundredths = 100 * part;
  if (hundredths === 0) return "0%";
  if (hundredths >= 9.95) return `${hundredths.toFixed(0)}%`;
  return hundredths >= 0.095 ? `${hundredths.toFixed(1)}%` : `${Number(hundredths.toPrecision(1))}%`;
}
const times = (lift) => `${lift >= 9.95 ? grouped(lift) : lift.toFixed(1)}×`;

// Colours, as the current theme has them.
const probe = el("span", { hidden: true });
document.body.append(probe);
function themed(name) {
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}
function channels(colour) {
  if (colour.startsWith("#")) return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return colour.match(/[\d.]+/g).slice(0, 3).map(Number);
}
function mixed(colour, other, part) {
  const [a, b] = [channels(colour), channels(other)];
  return a.map((channel, i) => Math.round(channel * part + b[i] * (1 - part)));
}
const rgb = (parts) => `rgb(${parts.join(" ")})`;
// Black or white, whichever can be read on a colour.
function readableOn(colour) {
  const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  const [r, g, b] = channels(colour).map((channel) => linear(channel / 255));
  const luminance = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return (luminance + 0.05) ** 2 > 0.05 * 1.05 ? "#000000" : "#ffffff";
}

// The colour of a topic in the current theme; in styles a variable, which follows the theme.
let colours = [];
const colourOf = (k) => colours[k];
const coloured = (k) => ({ "--colour": `var(--topic-${k})`, "--on-colour": `var(--on-topic-${k})` });
const swatch = (k, size = "") => el("span", { class: `swatch ${size}`, ...coloured(k) }, String(k + 1));

function showTip(x, y, ...content) {
  const tip = $("tip");
  tip.replaceChildren(...content);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = x + 16 + width > innerWidth - 8 ? x - 16 - width : x + 16;
  const top = Math.min(Math.max(y - height - 12, 8), innerHeight - height - 8);
  tip.style.transform = `translate(${Math.max(8, left)}px, ${top}px)`;
}
const hideTip = () => { $("tip").hidden = true; };

// Advice as sentences.
const sentence = (text) => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
const remarks = (texts) => texts.map((text) => el("li", {}, sentence(text)));

function facts(pairs) {
  return el("dl", { class: "facts" }, ...pairs.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

// A canvas as sharp as the screen: its 2d context in CSS pixels, and its size.
function sharp(canvas) {
  if (recording) return { context: recording, ...canvas.getBoundingClientRect().toJSON() };
  const { width, height } = canvas.getBoundingClientRect();
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  return { context, width, height };
}

// An input that suggests names while one types: those that begin with the text, those that contain it, then those of which
// something else does, where `about(i)` gives such texts.
function suggesting(input, names, pick, about = null) {
  const MOST = 10;
  const role = { class: "options", role: "listbox", id: `${input.id}-options`, "aria-label": "Suggestions" };
  const list = el("ul", { ...role, hidden: true });
  const roles = { role: "combobox", "aria-expanded": "false", "aria-controls": list.id, "aria-autocomplete": "list" };
  input.after(list);
  for (const [key, value] of Object.entries(roles)) input.setAttribute(key, value);
  let lowered = null, found = [], active = -1;
  const why = new Map(); // what else of a suggestion contains the text

  function search() {
    const text = input.value.trim().toLowerCase();
    lowered ??= names.map((name) => name.toLowerCase());
    const begins = [], contains = [];
    if (text) {
      for (let i = 0; i < lowered.length; i++) {
        const at = lowered[i].indexOf(text);
        if (at === 0) begins.push(i);
        else if (at > 0 && contains.length < MOST) contains.push(i);
      }
    }
    begins.sort((a, b) => names[a].length - names[b].length || a - b);
    found = [...begins, ...contains].slice(0, MOST);
    why.clear();
    for (let i = 0; about && text && found.length < MOST && i < names.length; i++) {
      if (lowered[i].includes(text)) continue;
      const other = about(i).find((words) => words.toLowerCase().includes(text));
      if (other === undefined) continue;
      why.set(i, other);
      found.push(i);
    }
    show(text !== "");
  }
  function show(open) {
    active = found.length ? 0 : -1;
    list.replaceChildren(...found.map((i, place) => {
      const pressed = (event) => { event.preventDefault(); choose(place); };
      return el("li", { role: "option", id: `${list.id}-${place}`, onpointerdown: pressed }, names[i],
        why.has(i) ? el("small", {}, why.get(i)) : null);
    }));
    if (!found.length) list.append(el("li", { class: "none", role: "option", "aria-disabled": "true" }, "No match"));
    list.hidden = !open;
    list.classList.remove("above");
    list.classList.toggle("above", open && list.getBoundingClientRect().bottom > innerHeight && input.getBoundingClientRect().top > list.offsetHeight);
    input.setAttribute("aria-expanded", String(open));
    mark();
  }
  function mark() {
    [...list.children].forEach((option, place) => option.setAttribute("aria-selected", String(place === active)));
    if (active >= 0 && !list.hidden) input.setAttribute("aria-activedescendant", `${list.id}-${active}`);
    else input.removeAttribute("aria-activedescendant");
  }
  function choose(place) {
    if (place < 0) return;
    input.value = names[found[place]];
    show(false);
    pick(found[place]);
  }
  input.addEventListener("input", search);
  input.addEventListener("focus", () => { if (input.value) search(); });
  input.addEventListener("blur", () => show(false));
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (list.hidden) search();
      else if (found.length) active = (active + (event.key === "ArrowDown" ? 1 : found.length - 1)) % found.length;
      mark();
    } else if (event.key === "Enter") {
      if (list.hidden) search();
      choose(active);
    } else if (event.key === "Escape") {
      show(false);
      return;
    } else return;
    event.preventDefault();
  });
}

// The column of metadata of this name, in small letters or large.
const columnCalled = (name) => columns.find((column) => column.kind === "text" && column.name.toLowerCase() === name);

async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = el("textarea", {});
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  const label = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = label; }, 1200);
}
