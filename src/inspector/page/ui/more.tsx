/** The button below a list that has further pages. */
import type { JSX } from "preact";
import type { Pages } from "../api/pages.js";
import { Failure } from "./states.js";

export function More<Entry>({
  pages,
  name,
}: {
  readonly pages: Pages<Entry>;
  readonly name: string;
}): JSX.Element | null {
  if (pages.failure) return <Failure failure={pages.failure} retry={pages.reload} />;
  if (!pages.hasMore) return null;
  return (
    <p class="more-line">
      <button type="button" class="button" disabled={pages.isBusy} onClick={pages.more}>
        Show more {name}
      </button>
    </p>
  );
}
