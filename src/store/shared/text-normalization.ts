/** Texts as every database can hold them, so that what is looked for and what is found are changed in the same way. */

/** Drivers cut texts at NUL or refuse them, and full-text indexes read all of these as U+FFFD; so are halves of surrogate pairs. */
const UNKEPT = /[\0\ufffe\uffff]|\p{Surrogate}/gu;
/** Half a pair at either end of a text may be found inside of a whole one. */
const HALF_AT_END = /^[\udc00-\udfff]|[\ud800-\udbff]$/g;

/** A text as it is kept. */
export function toIndexableText(text: string): string {
  return text.replace(UNKEPT, "\ufffd");
}

/** What to look for among kept texts, to find all that contain this one. */
export function toSearchableText(text: string): string {
  return toIndexableText(text.replace(HALF_AT_END, ""));
}
