// Where features are types of mutations: a bar for each, in the order and the colours of the field, group by group.

function signatureBars(k) {
  if (!page.signature) return null;
  const { groups, kind } = page.signature, heights = page.signature.heights[k], names = page.signature.names;
  const over = groups.some(({ heading }) => heading) ? 11 : 0; // room for headings
  const width = 480, strip = 13, edge = { left: 30, top: 20 + over, bottom: 2 }, height = 104 + over;
  const wide = (width - edge.left) / heights.length, top = Math.max(1e-9, ...heights);
  const y = (part) => edge.top + (1 - part / top) * (height - edge.top - edge.bottom), parts = [];
  for (const tick of roundTicks(0, top, 3).slice(1)) {
    parts.push(svg("line", { class: "grid-line", x1: edge.left, x2: width, y1: y(tick), y2: y(tick) }),
      svg("text", { x: edge.left - 4, y: y(tick) + 4, "text-anchor": "end" }, `${Number((100 * tick).toPrecision(3))}%`));
  }
  let place = 0;
  const runs = new Map(); // of headings: from where to where
  for (const { label, heading, colours } of groups) {
    const x = edge.left + place * wide, size = wide * colours.length;
    const fits = 6.5 * label.length < size, dark = readableOn(colours.at(-1)) === "#ffffff";
    runs.set(heading, [runs.get(heading)?.[0] ?? x, x + size]);
    parts.push(svg("g", {}, svg("title", {}, heading ? `${heading}: ${label}` : label),
      svg("rect", { x: x + 0.5, y: over + 1, width: size - 1, height: strip, fill: colours.at(-1) }),
      ...(fits ? [svg("text", { class: dark ? "strip dark" : "strip", x: x + size / 2, y: over + strip - 2, "text-anchor": "middle" }, label)] : [])));
    colours.forEach((colour, j) => {
      const at = place + j;
      parts.push(svg("g", {}, svg("title", {}, `${names[at]}: ${percent(heights[at])}`),
        svg("rect", { class: "hit", x: edge.left + at * wide, y: edge.top, width: wide, height: height - edge.top }),
        svg("rect", { class: "outlined", x: edge.left + at * wide + 0.15 * wide, y: y(heights[at]), width: 0.7 * wide, height: height - edge.bottom - y(heights[at]), fill: colour })));
    });
    place += colours.length;
  }
  for (const [heading, [from, to]] of runs) {
    if (heading && 4.6 * heading.length < to - from) parts.push(svg("text", { class: "heading", x: (from + to) / 2, y: 9, "text-anchor": "middle" }, heading));
  }
  parts.push(svg("line", { class: "grid-line", x1: edge.left, x2: width, y1: y(0), y2: y(0) }));
  return svg("svg", { class: "signature", viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `Shares of ${kind} in topic ${k + 1}; the list below has the largest` }, ...parts);
}
