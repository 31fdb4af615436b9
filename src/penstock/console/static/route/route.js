// A route's page: figures and charts that move, and how its Replays go.
import { follow, shown } from "/static/live.js";
import { draw } from "/static/route/chart.js";

const figures = document.querySelector("[data-route]");
const { route, path } = figures.dataset;
const FIELDS = ["at", "rate", "failures", "p50", "p99", "lag"];
const charts = [...document.querySelectorAll("[data-chart]")];
let points = [];

function span(seconds) {
  if (!seconds) return "–";
  if (seconds < 60) return `${Math.round(seconds)}s`;
  return seconds < 3600 ? `${Math.floor(seconds / 60)}m ${Math.round(seconds % 60)}s` : `${Math.floor(seconds / 3600)}h ${Math.floor((seconds % 3600) / 60)}m`;
}

function drawAll() {
  const now = Date.now() / 1000;
  for (const place of charts) {
    const factor = Number(place.dataset.factor || 1);
    const series = place.dataset.chart.split(",").map((field) => {
      const column = FIELDS.indexOf(field);
      return points.map((point) => [point[0], point[column] === null ? null : point[column] * factor]);
    });
    draw(place, place.dataset.names.split(","), series, now);
  }
}

function put(numbers) {
  for (const cell of figures.querySelectorAll("[data-number]")) {
    const name = cell.dataset.number;
    cell.textContent = (name === "oldest" ? span(numbers.oldest) : shown[name](numbers[name])) || "–";
  }
  figures.classList.toggle("wrong", numbers.failures > 0 || numbers.unreachable);
}

let latest = null;
const remembered = await fetch(`${path}/points`).then((answer) => (answer.ok ? answer.json() : { points: [] }), () => ({ points: [] }));
points = remembered.points;
drawAll();
follow("/live/numbers", ({ at, changed }) => {
  latest = changed[route] || latest;
  if (!latest) return;
  put(latest);
  if (!points.length || at - points.at(-1)[0] >= 1) points.push([at, latest.rate, latest.failures, latest.p50, latest.p99, latest.lag]);
  points = points.filter((point) => point[0] > at - 900);
  drawAll();
});
addEventListener("resize", drawAll);

// While a Replay runs, how far it has got.
const replays = document.getElementById("replays");
setInterval(async () => {
  if (document.hidden || !replays.querySelector("[data-running]") || replays.contains(document.activeElement)) return;
  try {
    const answer = await fetch(`${path}/replays`, { headers: { accept: "text/html" } });
    if (answer.ok) replays.innerHTML = await answer.text();
  } catch { /* the next time */ }
}, 1000);
