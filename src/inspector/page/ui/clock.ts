/** The time of the server, for relative times. It advances only while the page is visible. */
import { signal } from "@preact/signals";
import { clockOffset } from "../api/live.js";

/** How often relative times are written again, in milliseconds. */
const TICK = 10_000;

export const now = signal(Date.now());

export function serverNow(): number {
  return Date.now() + clockOffset.value;
}

setInterval(() => {
  if (document.visibilityState === "visible") now.value = serverNow();
}, TICK);
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") now.value = serverNow();
});
