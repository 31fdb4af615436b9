// Buttons that copy the text of an element, here or in a piece that is put in later.
import { tell } from "/static/shell.js";

async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Without TLS browsers have no clipboard for pages; a selection that is copied still works.
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (!done) throw new Error("the browser does not allow it");
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  try {
    await copy(document.getElementById(button.dataset.copy).textContent);
    tell("Copied.");
  } catch (error) {
    tell(`Not copied: ${error.message}`, true);
  }
});
