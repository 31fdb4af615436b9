// Lines over time, drawn as SVG in the width that there is.
const HEIGHT = 150;
const LEFT = 40;
const BOTTOM = 20;
const TOP = 8;
const WINDOWS = [60, 180, 300, 900];
const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/** A round number at or above the largest. */
function roof(largest) {
  if (!(largest > 0)) return 1;
  const step = 10 ** Math.floor(Math.log10(largest));
  return [1, 2, 5, 10].map((factor) => factor * step).find((number) => number >= largest);
}

const label = (number) => (number >= 1000 ? `${number / 1000}k` : String(Number(number.toPrecision(3))));

/** Draws `series` (lists of [time, value or null]) into a place; gaps in time are gaps in the line. */
export function draw(place, names, series, now) {
  const oldest = Math.min(now, ...series.flat().map(([time]) => time));
  const window = WINDOWS.find((seconds) => now - oldest <= seconds) ?? WINDOWS.at(-1);
  const width = Math.max(220, place.clientWidth);
  const most = roof(Math.max(0, ...series.flat().map(([, value]) => value ?? 0)));
  const x = (at) => LEFT + ((at - (now - window)) / window) * (width - LEFT - 6);
  const y = (value) => TOP + (1 - value / most) * (HEIGHT - TOP - BOTTOM);
  const latest = series.map((points) => points.at(-1)?.[1] ?? null);
  const svg = element("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img",
    "aria-label": names.map((name, at) => `${name}: ${latest[at] === null ? "nothing" : label(latest[at])}`).join(", ") });
  for (const part of [0, 0.5, 1]) {
    svg.append(element("line", { class: "rule", x1: LEFT, x2: width - 6, y1: y(most * part), y2: y(most * part) }));
    svg.append(element("text", { class: "tick", x: LEFT - 6, y: y(most * part) + 4, "text-anchor": "end" }, label(most * part)));
  }
  svg.append(element("text", { class: "tick", x: LEFT, y: HEIGHT - 4 }, `${window / 60} min ago`));
  svg.append(element("text", { class: "tick", x: width - 6, y: HEIGHT - 4, "text-anchor": "end" }, "now"));
  series.forEach((points, at) => {
    let path = "";
    let before = null;
    for (const [time, value] of points) {
      if (value === null || time < now - window) { before = null; continue; }
      if (before === null) path += `M${x(time).toFixed(1)} ${y(value).toFixed(1)}h0`;
      path += `${before !== null && time - before < 40 ? "L" : "M"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
      before = time;
    }
    svg.append(element("path", { class: `series s${at + 1}`, d: path || "M0 0" }));
  });
  const legend = document.createElement("p");
  legend.className = "names";
  names.forEach((name, at) => {
    const entry = document.createElement("span");
    entry.className = `s${at + 1}`;
    entry.textContent = name;
    legend.append(entry);
  });
  place.replaceChildren(svg, ...(names.length > 1 ? [legend] : []));
}
