/** Light or dark: that of the system, or the one that was chosen. */
import { effect, signal } from "@preact/signals";

export const THEMES = ["auto", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const KEY = "savepoint-theme";

function readTheme(): Theme {
  const stored = localStorage.getItem(KEY);
  return THEMES.find((each) => each === stored) ?? "auto";
}

export const theme = signal<Theme>(readTheme());

effect(() => {
  const { dataset } = document.documentElement;
  if (theme.value === "auto") {
    delete dataset["theme"];
    localStorage.removeItem(KEY);
  } else {
    dataset["theme"] = theme.value;
    localStorage.setItem(KEY, theme.value);
  }
});

export function nextTheme(): void {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] as Theme;
}
