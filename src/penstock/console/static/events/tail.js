// The live tail: new lines first, limited to what one can read.
const MOST = 200;
const lines = document.querySelector("#tail tbody");
const rate = document.getElementById("rate");
const sign = document.getElementById("liveness");
const hold = document.getElementById("hold");
const labels = [...document.querySelectorAll("#tail thead th")].map((cell) => cell.textContent);
let source = null, held = false, kept = 0, sampledUntil = 0, counted = 0;

function cell(text, label, className) {
  const made = document.createElement("td");
  made.dataset.label = label;
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function line(event) {
  const row = document.createElement("tr");
  const link = document.createElement("a");
  link.href = event.href;
  link.textContent = event.id;
  link.className = "mono";
  const id = cell("", labels[2]);
  id.append(link);
  row.append(cell(event.at, labels[0], "time"), cell(event.type, labels[1], "long"), id, cell(event.source, labels[3], "long"));
  const more = cell(event.more, labels[4], "long mono");
  if (event.result) more.classList.add(`x-${event.result}`);
  row.append(more);
  return row;
}

function take(event) {
  if (event.problem) { say("not connected", false); rate.textContent = event.problem; return; }
  say("live", true);
  if (event.sample) {
    sampledUntil = Date.now() + 2500;
    rate.textContent = `A sample: showing ${event.sample.shown} of ${event.sample.of} per second.`;
    return;
  }
  if (!event.id) return;
  counted += 1;
  if (held) { kept += 1; hold.textContent = `Continue (${kept} skipped)`; return; }
  lines.prepend(line(event));
  while (lines.rows.length > MOST) lines.lastElementChild.remove();
}

function say(text, good) {
  sign.textContent = text;
  sign.className = good ? "liveness on" : "liveness off";
  sign.hidden = false;
}

hold.addEventListener("click", () => {
  held = !held;
  kept = 0;
  hold.setAttribute("aria-pressed", String(held));
  hold.textContent = held ? "Continue" : "Pause";
});

setInterval(() => {
  if (Date.now() > sampledUntil && source) {
    rate.textContent = lines.rows.length ? `Showing all: ${counted} per second.` : "Waiting for events…";
  }
  counted = 0;
}, 1000);

function open() {
  if (source || document.hidden) return;
  source = new EventSource(`/live/events${location.search}`);
  source.onmessage = (event) => take(JSON.parse(event.data));
  source.onerror = async () => {
    say("not connected", false);
    if (source.readyState !== EventSource.CLOSED) return;
    // The browser does not report the reason: fetch again and show the response.
    const answer = await fetch(`/live/events${location.search}`, { headers: { Accept: "application/json" } });
    if (answer.status === 401) location.reload();
    else if (!answer.ok) rate.textContent = (await answer.json()).problem;
    else answer.body.cancel();
  };
}

function close() { if (source) { source.close(); source = null; } }

document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
addEventListener("pagehide", close);
addEventListener("pageshow", open);
open();
