// The table of components, renewed while the page can be seen.
const place = document.getElementById("components");

setInterval(async () => {
  if (document.hidden || place.contains(document.activeElement)) return;
  try {
    const answer = await fetch("/stack/components", { headers: { accept: "text/html" } });
    if (answer.ok) place.innerHTML = await answer.text();
  } catch { /* the next time */ }
}, 5000);
