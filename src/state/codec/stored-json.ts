/**
 * Parses and validates JSON that was stored. Checksums show that it is unchanged, not who wrote it: a store or a bundle from
 * another person can contain anything. Whatever passes here can be decoded without overflowing the stack, and its tags
 * (`{"$":[…]}`) have the content that the decoder expects.
 */
import { SavepointError } from "../../errors.js";
import { either, isCounter, isString, listOf, optional, type Shape, tupleOf } from "../../util/index.js";
import { MAX_BIGINT_LENGTH, MAX_DEPTH, type Shadow, TAG } from "../tree/index.js";

/** The levels of a piece tree: more than any list needs. */
const MAX_LEVEL = 12;
/**
 * The deepest nesting of stored JSON. Twice the depth of a value, because the entry of a Map is stored as a pair, which adds a
 * bracket; plus some levels, because a message is stored in an array with its time.
 */
const MAX_STORED_DEPTH = 2 * MAX_DEPTH + 4;

/**
 * Parses the JSON of a frame, or of a value inside a record.
 *
 * Most frames have no tag and few brackets. These are recognised by a scan of the text, without walking the parsed value.
 *
 * @param depth the depth of the frame in its state
 * @throws `DAMAGED` if it is not JSON, is nested too deeply, or has an invalid tag
 */
export function parseStoredJson(json: string, depth = 0): Shadow {
  let value: Shadow;
  try {
    value = JSON.parse(json) as Shadow;
  } catch (cause) {
    throw damagedFrame("it is not valid JSON", cause);
  }
  const maxDepth = MAX_STORED_DEPTH - depth;
  if (mayHaveTag(json) || hasMoreBrackets(json, maxDepth)) validate(value, maxDepth);
  return value;
}

/** Parses the JSON of a string. @throws `DAMAGED` if it is anything else */
export function parseStoredString(json: string): string {
  const text = parseStoredJson(json);
  if (typeof text === "string") return text;
  throw damagedFrame("it is not a string");
}

/** The error for stored data that does not decode. @param reason completes the sentence */
export function damagedFrame(reason: string, cause?: unknown): SavepointError<"DAMAGED"> {
  return new SavepointError("DAMAGED", `A stored frame is damaged: ${reason}.`, { cause });
}

/** Whether JSON can contain a tag. No version escapes the `$` of a tag, but other programs can. */
function mayHaveTag(json: string): boolean {
  return (json.includes(TAG) && json.includes(`"${TAG}"`)) || json.includes("\\u0024");
}

/** Whether a text has more than `limit` opening brackets, including those inside strings. */
function hasMoreBrackets(text: string, limit: number): boolean {
  if (text.length <= 2 * limit) return false;
  let count = 0;
  for (let at = text.indexOf("{"); at >= 0; at = text.indexOf("{", at + 1)) if (++count > limit) return true;
  for (let at = text.indexOf("["); at >= 0; at = text.indexOf("[", at + 1)) if (++count > limit) return true;
  return false;
}

/** @param levels how many more levels of nesting are allowed */
function validate(value: Shadow, levels: number): void {
  if (typeof value !== "object" || value === null) return;
  if (levels < 0) throw damagedFrame(`it is nested too deeply`);
  if (Array.isArray(value)) for (const part of value) validate(part, levels - 1);
  else if (Object.hasOwn(value, TAG)) validateTag((value as Record<string, unknown>)[TAG], levels);
  else for (const part of Object.values(value)) validate(part as Shadow, levels - 1);
}

function validateTag(tag: unknown, levels: number): void {
  const [name, content] = Array.isArray(tag) ? (tag as unknown[]) : [];
  const shape = typeof name === "string" ? (TAGS.get(name) ?? isUnknownTag) : undefined;
  if (!shape?.(tag)) throw damagedFrame(`it has an invalid tag ${String(name).slice(0, 20)}`);
  if (name === "class") validate((tag as Shadow[])[2] as Shadow, levels - 1);
  if (!Array.isArray(content)) return;
  // The entries of Maps and objects are pairs, which are not a level of the value.
  for (const part of content as Shadow[]) {
    if (name === "set" || !Array.isArray(part)) validate(part, levels - 1);
    else for (const half of part) validate(half, levels - 1);
  }
}

/** The decoder reports these as written by a newer version. */
const isUnknownTag: Shape = () => true;
const isLevel: Shape = (value) => isCounter(value) && (value as number) <= MAX_LEVEL;
const isBigInt: Shape = (value) =>
  typeof value === "string" && value.length <= MAX_BIGINT_LENGTH && /^-?\d+$/.test(value);
const isUrl: Shape = (value) => typeof value === "string" && URL.canParse(value);
const isDate: Shape = (value) => value === null || typeof value === "string" || typeof value === "number";
const isPair: Shape = (value) => Array.isArray(value) && value.length === 2;
const isEntry: Shape = (value) => isPair(value) && typeof (value as unknown[])[0] === "string";

/** A list in items: its position in the refs, the level of its piece tree, and the sizes of the nodes below. */
const list = tupleOf(isString, isCounter, optional(isLevel), optional(listOf(isCounter)));
const inline = (elements: Shape): Shape => either(list, tupleOf(isString, listOf(elements)));

/** The shapes of tags, by their names. */
const TAGS: ReadonlyMap<string, Shape> = new Map([
  ["undefined", tupleOf(isString)],
  [
    "number",
    tupleOf(
      isString,
      either(isString, (value) => typeof value === "number"),
    ),
  ],
  ["bigint", tupleOf(isString, isBigInt)],
  ["date", tupleOf(isString, isDate)],
  ["url", tupleOf(isString, isUrl)],
  ["bytes", tupleOf(isString, isString)],
  ["buffer", tupleOf(isString, isString)],
  ["class", tupleOf(isString, isString, () => true)],
  ["value", list],
  ["text", list],
  ["dense", list],
  ["array", list],
  ["blob", tupleOf(isString, isCounter)],
  ["blobBuffer", tupleOf(isString, isCounter)],
  ["map", inline(isPair)],
  ["set", inline(() => true)],
  ["object", inline(isEntry)],
  ["dict", inline(isEntry)],
]);
