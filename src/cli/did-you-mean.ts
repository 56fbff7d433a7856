/** Suggestions for misspelt names. */

/**
 * Returns the name with the smallest edit distance, ignoring case; `undefined` if that distance is more than 2 and more than
 * a third of the length of `typed`.
 */
export function findClosestName(typed: string, names: Iterable<string>): string | undefined {
  const lower = typed.toLowerCase();
  let best: { name: string; distance: number } | undefined;
  for (const name of names) {
    const distance = editDistance(lower, name.toLowerCase());
    if (distance > Math.max(2, lower.length / 3) || distance >= (best?.distance ?? Number.POSITIVE_INFINITY)) continue;
    best = { name, distance };
  }
  return best?.name;
}

/** The Levenshtein distance. Infinite for strings of very different lengths. */
function editDistance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > 8) return Number.POSITIVE_INFINITY;
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = a[i - 1] === b[j - 1] ? 0 : 1;
      next.push(Math.min((row[j] as number) + 1, (next[j - 1] as number) + 1, (row[j - 1] as number) + substitution));
    }
    row = next;
  }
  return row[b.length] as number;
}
