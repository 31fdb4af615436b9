// The map: numbers and motion on its lines, search, zoom by keys, buttons and wheel, and a new picture now and then.
import { follow, count, rate, milliseconds } from "/static/live.js";

const picture = document.getElementById("picture");
const search = document.getElementById("search");
const numbers = new Map();
const MOTION_LIMIT = 220; // lines that may move at once: more would cost the browser more than they show
const RENEW_MS = 10000;
let scale = null;
let known = new Map();

/** Finds the elements of the picture by the key of the route that they tell of. */
function index() {
  known = new Map();
  const at = (key) => known.get(key) || known.set(key, { lines: [] }).get(key);
  for (const kind of ["rate", "latency", "failures", "lag"]) {
    for (const element of picture.querySelectorAll(`[data-${kind}]`)) at(element.dataset[kind])[kind] = element;
  }
  for (const element of picture.querySelectorAll("[data-line]")) at(element.dataset.line).lines.push(element);
  for (const element of picture.querySelectorAll("[data-box]")) {
    const entry = at(element.dataset.box);
    entry.box = element;
    if (element.dataset.members) entry.members = element.dataset.members.split(" ");
  }
}

/** What a folded box stands for, added up. */
function sum(members) {
  const total = { rate: 0, failures: 0, lag: 0, p50: null, p99: null, unreachable: false };
  for (const key of members) {
    const one = numbers.get(key);
    if (!one) continue;
    total.rate += one.rate;
    total.failures += one.failures;
    total.lag += one.lag;
    total.unreachable ||= one.unreachable;
    if (one.p99 !== null && one.p99 > (total.p99 ?? -1)) { total.p99 = one.p99; total.p50 = one.p50; }
  }
  return total;
}

const put = (element, text) => { if (element && element.textContent !== text) element.textContent = text; };

function show(key, entry) {
  const now = entry.members ? sum(entry.members) : numbers.get(key);
  if (!now) return;
  put(entry.rate, now.rate > 0 ? `${rate(now.rate)}/s` : "");
  if (now.lag === undefined) return; // a Broker or channel
  put(entry.latency, now.p50 === null ? "" : `${milliseconds(now.p50)} ms`);
  put(entry.failures, now.failures > 0 ? `${rate(now.failures)}/s fail` : now.unreachable ? "unreachable" : "");
  put(entry.lag, now.lag > 0 ? `${count(now.lag)} wait` : "");
  const wrong = now.failures > 0 || now.unreachable;
  if (entry.box) entry.box.classList.toggle("wrong", wrong);
  const moves = now.rate > 0 && picture.querySelectorAll(".line").length <= MOTION_LIMIT;
  for (const line of entry.lines) {
    line.classList.toggle("wrong", wrong);
    line.classList.toggle("moving", moves);
    line.classList.toggle("fast", moves && now.rate >= 100);
    line.classList.toggle("thick", now.rate >= 10);
  }
}

const showAll = () => { for (const [key, entry] of known) show(key, entry); };

function place() {
  const svg = picture.querySelector("svg");
  if (!svg) return;
  const { width, height } = svg.viewBox.baseVal;
  if (scale === null) scale = Math.min(1.15, Math.max(0.62, (picture.clientWidth - 4) / width));
  svg.setAttribute("width", Math.round(width * scale));
  svg.setAttribute("height", Math.round(height * scale));
}

function zoom(factor) {
  const old = scale ?? 1;
  scale = Math.min(3, Math.max(0.15, old * factor));
  const ratio = scale / old;
  const middle = { x: picture.scrollLeft + picture.clientWidth / 2, y: picture.scrollTop + picture.clientHeight / 2 };
  place();
  picture.scrollTo(middle.x * ratio - picture.clientWidth / 2, middle.y * ratio - picture.clientHeight / 2);
}

const fit = () => { scale = null; place(); };
document.getElementById("zoom-in").addEventListener("click", () => zoom(1.25));
document.getElementById("zoom-out").addEventListener("click", () => zoom(0.8));
document.getElementById("zoom-fit").addEventListener("click", fit);
picture.addEventListener("wheel", (event) => {
  if (!event.ctrlKey && !event.metaKey) return;
  event.preventDefault();
  zoom(event.deltaY < 0 ? 1.1 : 0.9);
}, { passive: false });
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey) return;
  if (event.key === "+" || event.key === "=") zoom(1.25);
  if (event.key === "-") zoom(0.8);
  if (event.key === "0") fit();
});

// Dragging pans, as scrolling and the arrow keys do.
let drag = null;
picture.addEventListener("pointerdown", (event) => {
  if (event.button !== 0 || event.pointerType !== "mouse") return;
  drag = { x: event.clientX + picture.scrollLeft, y: event.clientY + picture.scrollTop, moved: false };
});
addEventListener("pointermove", (event) => {
  if (!drag) return;
  const left = drag.x - event.clientX;
  const top = drag.y - event.clientY;
  if (Math.abs(left - picture.scrollLeft) + Math.abs(top - picture.scrollTop) > 4) drag.moved = true;
  if (drag.moved) picture.scrollTo(left, top);
});
addEventListener("pointerup", () => { setTimeout(() => { drag = null; }, 0); });
picture.addEventListener("click", (event) => { if (drag && drag.moved) event.preventDefault(); }, true);
picture.addEventListener("dragstart", (event) => event.preventDefault());

let renewing = null;
/** Fetches the picture anew, and waits the longer before the next the longer it took. */
async function renew() {
  clearTimeout(renewing);
  const asked = new URLSearchParams(location.search);
  const began = performance.now();
  if (!document.hidden) {
    try {
      const answer = await fetch(`/map/picture?${asked}`, { headers: { accept: "text/html" } });
      if (answer.ok && String(asked) === String(new URLSearchParams(location.search))) take(await answer.text());
    } catch { /* the sign of life in the bar says it */ }
  }
  renewing = setTimeout(renew, Math.max(RENEW_MS, 20 * (performance.now() - began)));
}

function take(markup) {
  const left = picture.scrollLeft;
  const top = picture.scrollTop;
  const focused = document.activeElement?.closest?.("[data-box]")?.dataset.box;
  picture.innerHTML = markup;
  const svg = picture.querySelector("svg");
  if (svg) document.getElementById("totals").textContent = `${svg.dataset.routes} route${svg.dataset.routes === "1" ? "" : "s"}`;
  index();
  place();
  showAll();
  picture.scrollTo(left, top);
  if (focused) picture.querySelector(`[data-box="${CSS.escape(focused)}"]`)?.focus();
}

let typed = null;
search.addEventListener("input", () => {
  clearTimeout(typed);
  typed = setTimeout(() => {
    const asked = new URLSearchParams(location.search);
    if (search.value) asked.set("q", search.value); else asked.delete("q");
    history.replaceState(null, "", asked.size ? `?${asked}` : location.pathname);
    renew();
  }, 200);
});
search.form.addEventListener("submit", (event) => event.preventDefault());
addEventListener("resize", place);

index();
place();
follow("/live/numbers", ({ changed, gone }) => {
  const unknown = Object.keys(changed).some((key) => !numbers.has(key)) && numbers.size > 0;
  for (const [key, value] of Object.entries(changed)) numbers.set(key, value);
  for (const key of gone) numbers.delete(key);
  showAll();
  if (unknown || gone.length) renew();
});
renewing = setTimeout(renew, RENEW_MS);
