// Selecting many, and live progress of Replays.
const all = document.getElementById("all");
const chosen = document.getElementById("chosen");
const boxes = [...document.querySelectorAll("input[name=letter]")];

function count() {
  const marked = boxes.filter((box) => box.checked).length;
  chosen.textContent = marked ? `${marked} selected` : "";
  all.checked = marked > 0 && marked === boxes.length;
  all.indeterminate = marked > 0 && marked < boxes.length;
}

if (all) {
  all.addEventListener("change", () => { for (const box of boxes) box.checked = all.checked; count(); });
  for (const box of boxes) box.addEventListener("change", count);
}

async function look() {
  const shown = document.getElementById("progress");
  if (!("busy" in shown.dataset)) return;
  if (!document.hidden) {
    try {
      const answer = await fetch("/deadletters/replays");
      if (answer.ok) shown.outerHTML = await answer.text();
    } catch { /* the console is unreachable; retried later */ }
  }
  setTimeout(look, 1000);
}
look();
