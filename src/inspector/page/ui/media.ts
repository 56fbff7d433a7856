/** Whether the window is narrow, as on a phone. */
import { signal } from "@preact/signals";

const query = matchMedia("(max-width: 760px)");
export const isNarrow = signal(query.matches);
query.addEventListener("change", ({ matches }) => (isNarrow.value = matches));
