/** Shortcuts of the whole page. */
import { signal } from "@preact/signals";
import { navigate, paths } from "./router.js";

export const isHelpOpen = signal(false);

/** The views that `g` and a letter open. */
const GO: Readonly<Record<string, string>> = {
  s: paths.sessions,
  q: paths.questions,
  w: paths.queue,
  c: paths.conversations,
  a: paths.agents,
  d: paths.store,
};

/** How long `g` waits for the letter, in milliseconds. */
const SEQUENCE_TIME = 1200;

/** Listens to shortcuts. Returns a function that ends it. */
export function installShortcuts(): () => void {
  let goUntil = 0;
  const listener = (event: KeyboardEvent): void => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
    const { key } = event;
    if (Date.now() < goUntil && GO[key] !== undefined) {
      goUntil = 0;
      event.preventDefault();
      navigate(GO[key]);
      return;
    }
    goUntil = key === "g" ? Date.now() + SEQUENCE_TIME : 0;
    if (key === "?") isHelpOpen.value = true;
    else if (key === "/") focusSearch();
    else return;
    event.preventDefault();
  };
  document.addEventListener("keydown", listener);
  return () => document.removeEventListener("keydown", listener);
}

export function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName))
  );
}

/** The search of the view, or else the search of everything. */
function focusSearch(): void {
  const input = document.querySelector<HTMLInputElement>("main input[type=search]");
  if (input) {
    input.focus();
    input.select();
  } else navigate(paths.search);
}
