// The table of routes: search, and numbers that move.
import { follow, shown } from "/static/live.js";

const rows = new Map([...document.querySelectorAll("tr[data-route]")].map((row) => [row.dataset.route, row]));
const search = document.getElementById("search");

function sift() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let left = 0;
  for (const row of rows.values()) {
    row.hidden = !words.every((word) => row.dataset.text.includes(word));
    left += row.hidden ? 0 : 1;
  }
  const none = document.getElementById("none");
  if (none) none.hidden = left > 0;
}

search.addEventListener("input", sift);
sift();

if (rows.size) {
  follow("/live/numbers", ({ changed }) => {
    for (const [key, numbers] of Object.entries(changed)) {
      const row = rows.get(key);
      if (!row) continue;
      for (const cell of row.querySelectorAll("[data-number]")) {
        cell.textContent = shown[cell.dataset.number](numbers[cell.dataset.number]);
      }
      row.classList.toggle("wrong", numbers.failures > 0 || numbers.unreachable);
    }
  });
}
