// A filter is tried while it is typed; a backtest is shown when it has an end.
import "/static/events/copy.js";

const play = document.getElementById("play");
const text = document.getElementById("filter");
const back = document.getElementById("back");
const outcome = document.getElementById("outcome");
let timer = 0, asked = 0;

async function attempt() {
  const query = new URLSearchParams(new FormData(play));
  const number = ++asked;
  back.elements.filter.value = text.value;
  back.elements.broker.value = play.elements.broker.value;
  let answer;
  try {
    answer = await fetch(`/playground/tries?${query}`);
  } catch { return; }
  if (number !== asked || !answer.ok) return;
  outcome.innerHTML = await answer.text();
  history.replaceState(null, "", `/playground?${query}`);
}

function soon() { clearTimeout(timer); timer = setTimeout(attempt, 350); }

play.addEventListener("submit", (event) => { event.preventDefault(); attempt(); });
text.addEventListener("input", soon);
play.elements.broker.addEventListener("change", attempt);

async function look() {
  const state = document.getElementById("backtest-state");
  if (!state || !state.dataset.busy) return;
  try {
    const answer = await fetch(`/playground/backtests/${state.dataset.busy}`);
    if (answer.ok) state.outerHTML = await answer.text();
  } catch { /* the console is unreachable; retried later */ }
  setTimeout(look, 1500);
}
look();
