// What every page has: light and dark, keys, and a line of news.
const root = document.documentElement;

export function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function switchTheme() {
  root.dataset.theme = isDark() ? "light" : "dark";
  localStorage.setItem("penstock-theme", root.dataset.theme);
}

document.getElementById("theme").addEventListener("click", switchTheme);

/** Shows a line at the foot of the page for some seconds; screen readers say it. */
export function tell(text, isBad = false) {
  const notice = document.getElementById("notice");
  notice.textContent = text;
  notice.classList.toggle("bad", isBad);
  notice.hidden = false;
  clearTimeout(tell.timer);
  tell.timer = setTimeout(() => { notice.hidden = true; }, 6000);
}

let leads = false;
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key === "Escape" && typing) { typing.blur(); return; }
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (leads) {
    leads = false;
    const link = document.querySelector(`nav [data-key="${CSS.escape(event.key)}"]`);
    if (link) { event.preventDefault(); link.click(); }
    return;
  }
  if (event.key === "g") { leads = true; setTimeout(() => { leads = false; }, 1500); }
  if (event.key === "t") switchTheme();
  if (event.key === "/") {
    const search = document.querySelector("input[type=search]");
    if (search) { event.preventDefault(); search.focus(); search.select(); }
  }
});
