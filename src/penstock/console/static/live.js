// Live numbers: follows a stream of the console while the page is visible, and shows when it is interrupted.

/** Calls `take(message)` for each message of the stream at `path`. While the page is hidden nothing is asked for. */
export function follow(path, take) {
  const sign = document.getElementById("liveness");
  let source = null;
  const say = (text, good) => {
    sign.textContent = text;
    sign.className = good ? "liveness on" : "liveness off";
    sign.hidden = false;
  };
  const open = () => {
    if (source || document.hidden) return;
    source = new EventSource(path);
    source.onmessage = (event) => {
      const message = JSON.parse(event.data);
      say(message.problem ? "no numbers" : "live", !message.problem);
      sign.title = message.problem || "";
      take(message);
    };
    source.onerror = async () => {
      say("not connected", false);
      if (source.readyState !== EventSource.CLOSED) return;
      // The browser does not report the reason: fetch again. Where the session has ended, the form to sign in is shown.
      const answer = await fetch(path, { headers: { Accept: "application/json" } });
      if (answer.status === 401) location.reload();
      else answer.body.cancel();
    };
  };
  const close = () => { if (source) { source.close(); source = null; } };
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  open();
}

export function count(number) {
  if (number < 100000) return String(Math.round(number));
  return number < 999500 ? `${Math.round(number / 1000)}k` : `${(number / 1e6).toFixed(1)}M`;
}

export function rate(number) { return number >= 10 ? count(number) : number.toFixed(1); }

export function milliseconds(seconds) {
  if (seconds === null || seconds === undefined) return "";
  return seconds >= 0.01 ? (seconds * 1000).toFixed(0) : (seconds * 1000).toFixed(1);
}

export const shown = { rate, failures: rate, p50: milliseconds, p99: milliseconds, lag: count };
