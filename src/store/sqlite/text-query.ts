/**
 * Documents and queries of the full-text index, which indexes trigrams: three consecutive characters.
 *
 * A document that contains a string has all its trigrams; the caller verifies the reverse. Documents are indexed with two more
 * characters at their end, so that each of their characters begins a trigram, and strings of one or two characters can be found.
 */
import { toIndexableText, toSearchableText } from "../shared/index.js";

const TRIGRAM_LENGTH = 3;
const ENDING = "\u0002\u0002";
/** The highest code point: no trigram sorts behind those that end with it. */
const HIGHEST = "\u{10ffff}";
/** The most trigrams of a query. More of them exclude few further documents, and take longer. */
const MAX_TRIGRAMS = 8;

/** The form in which a document is indexed. */
export function toDocumentText(text: string): string {
  return toIndexableText(text) + ENDING;
}

/** How to find a string. */
export type TextQuery =
  /** Documents that match this expression. */
  | { readonly match: string }
  /** Documents with a trigram from `first` to `last`, both included. */
  | { readonly first: string; readonly last: string }
  /** Every document. */
  | "all";

/** Builds the query that finds all documents that contain a string, and possibly others. */
export function buildTextQuery(text: string): TextQuery {
  const characters = Array.from(toSearchableText(text));
  if (characters.length === 0) return "all";
  if (characters.length >= TRIGRAM_LENGTH) return { match: matchAll(selectSpread(trigramsOf(characters))) };
  const first = characters.join("");
  return { first, last: first + HIGHEST.repeat(TRIGRAM_LENGTH - characters.length) };
}

/** The expression that matches documents with any of these trigrams. */
export function matchAny(trigrams: readonly string[]): string {
  return trigrams.map(quote).join(" OR ");
}

function matchAll(trigrams: readonly string[]): string {
  return trigrams.map(quote).join(" AND ");
}

function trigramsOf(characters: readonly string[]): string[] {
  const trigrams = new Set<string>();
  for (let end = TRIGRAM_LENGTH; end <= characters.length; end++) {
    trigrams.add(characters.slice(end - TRIGRAM_LENGTH, end).join(""));
  }
  return [...trigrams];
}

/** Selects trigrams from all parts of the string. */
function selectSpread(trigrams: readonly string[]): readonly string[] {
  if (trigrams.length <= MAX_TRIGRAMS) return trigrams;
  const step = (trigrams.length - 1) / (MAX_TRIGRAMS - 1);
  return Array.from({ length: MAX_TRIGRAMS }, (_, index) => trigrams[Math.round(index * step)] as string);
}

/** Quotes a trigram, so that nothing in it is an operator. */
function quote(trigram: string): string {
  return `"${trigram.replaceAll('"', '""')}"`;
}
