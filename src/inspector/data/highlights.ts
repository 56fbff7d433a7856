/** Finding a text in a snippet, as the search does: ignoring case. */

/** The most parts of a snippet that are highlighted. */
const MAX_PARTS = 50;

/** The parts of a snippet that match: `[start, end]` in UTF-16 units. */
export function findHighlights(snippet: string, text: string): (readonly [number, number])[] {
  const wanted = fold(text).text;
  if (wanted === "") return [];
  const { text: folded, starts } = fold(snippet);
  const parts: (readonly [number, number])[] = [];
  for (
    let at = folded.indexOf(wanted);
    at >= 0 && parts.length < MAX_PARTS;
    at = folded.indexOf(wanted, at + wanted.length)
  ) {
    parts.push([starts[at] ?? 0, starts[at + wanted.length] ?? snippet.length]);
  }
  return parts;
}

/** The text in lower case, and for each of its units the position of the original one: some letters become several. */
function fold(text: string): { readonly text: string; readonly starts: readonly number[] } {
  const starts: number[] = [];
  let [folded, position] = ["", 0];
  for (const letter of text) {
    const lower = letter.toLowerCase();
    for (let unit = 0; unit < lower.length; unit++) starts.push(position);
    folded += lower;
    position += letter.length;
  }
  return { text: folded, starts };
}
