/** The size of a call's arguments, which a model chooses. */

/**
 * The largest size of a call's arguments, in megabytes. Strings and keys count one byte per character, and every other value
 * counts 8 bytes.
 */
export const MAX_INPUT_MEGABYTES = 32;

const BYTES_PER_VALUE = 8;

/** Whether the arguments exceed the limit. They are parsed JSON, and are read only up to the limit. */
export function isTooLarge(input: unknown): boolean {
  let left = MAX_INPUT_MEGABYTES * 1e6;
  const pending: unknown[] = [input];
  while (pending.length > 0 && left >= 0) {
    const value = pending.pop();
    left -= typeof value === "string" ? value.length : BYTES_PER_VALUE;
    if (typeof value !== "object" || value === null) continue;
    const isArray = Array.isArray(value);
    for (const key of Object.keys(value)) {
      if (!isArray) left -= key.length;
      pending.push((value as Record<string, unknown>)[key]);
    }
  }
  return left < 0;
}
