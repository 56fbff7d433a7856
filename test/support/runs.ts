/** Whether everything is tried in full, as in continuous integration: `STORES=all`. */
export const isFull = process.env["STORES"] === "all";

/** How often a property is tried: a few times by default, so that it takes less than half a second, in full with `STORES=all`. */
export function runs(full: number, few = Math.ceil(full / 10)): number {
  return isFull ? full : few;
}
