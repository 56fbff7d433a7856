/** Replaces characters that some databases cannot hold, in the same way in documents and in queries. */

/** Drivers cut strings at NUL or reject them, and full-text indexes read all of these and lone surrogates as U+FFFD. */
const UNSUPPORTED = /[\0\ufffe\uffff]|\p{Surrogate}/gu;
/** Half of a surrogate pair at either end of a query may match inside a full pair. */
const HALF_AT_END = /^[\udc00-\udfff]|[\ud800-\udbff]$/g;

/** The form in which a document is indexed. */
export function toIndexableText(text: string): string {
  return text.replace(UNSUPPORTED, "\ufffd");
}

/** The form in which a query finds all indexed documents that contain it. */
export function toSearchableText(text: string): string {
  return toIndexableText(text.replace(HALF_AT_END, ""));
}
