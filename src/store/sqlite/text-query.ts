/**
 * What the full-text index is given and asked: texts as trigrams, which are three characters in a row.
 *
 * A document contains a text only if it has every trigram of it; the reverse is for the caller to look at. Documents end
 * with two characters more than they have, so that each of theirs begins a trigram, and one or two can be found as well.
 */
import { toIndexableText, toSearchableText } from "../shared/index.js";

const CHARACTERS = 3;
const ENDING = "\u0002\u0002";
/** The highest code point there is: no trigram comes behind those that end with it. */
const HIGHEST = "\u{10ffff}";
/** More of them find hardly less, and take longer. */
const MAX_TRIGRAMS = 8;

/** A document as it is put into the index. */
export function toDocumentText(text: string): string {
  return toIndexableText(text) + ENDING;
}

/** How to look for a text. */
export type TextQuery =
  /** Documents that match this expression. */
  | { readonly match: string }
  /** Documents that have a trigram from `first` to `last`, both included. */
  | { readonly first: string; readonly last: string }
  /** Every document. */
  | "all";

export function buildTextQuery(text: string): TextQuery {
  const characters = Array.from(toSearchableText(text));
  if (characters.length === 0) return "all";
  if (characters.length >= CHARACTERS) return { match: allOf(spread(trigramsOf(characters))) };
  const first = characters.join("");
  return { first, last: first + HIGHEST.repeat(CHARACTERS - characters.length) };
}

/** Matches documents that have any of these trigrams. */
export function matchAny(trigrams: readonly string[]): string {
  return trigrams.map(quoted).join(" OR ");
}

function allOf(trigrams: readonly string[]): string {
  return trigrams.map(quoted).join(" AND ");
}

function trigramsOf(characters: readonly string[]): string[] {
  const trigrams = new Set<string>();
  for (let end = CHARACTERS; end <= characters.length; end++) {
    trigrams.add(characters.slice(end - CHARACTERS, end).join(""));
  }
  return [...trigrams];
}

/** Some of these, from all over the text. */
function spread(trigrams: readonly string[]): readonly string[] {
  if (trigrams.length <= MAX_TRIGRAMS) return trigrams;
  const step = (trigrams.length - 1) / (MAX_TRIGRAMS - 1);
  return Array.from({ length: MAX_TRIGRAMS }, (_, index) => trigrams[Math.round(index * step)] as string);
}

/** In quotes, nothing is an operator. */
function quoted(trigram: string): string {
  return `"${trigram.replaceAll('"', '""')}"`;
}
