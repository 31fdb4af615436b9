// Before the first paint, so that a dark page does not flash white: what the user chose, else what the system says.
const chosen = localStorage.getItem("penstock-theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
