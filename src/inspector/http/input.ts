/** Reading and validating what a request contains: query parameters and JSON bodies. */
import { badRequest, HttpError } from "./errors.js";

/** The largest body, in bytes: a state that was edited. */
const MAX_BODY = 16 * 1024 * 1024;

/** The deepest nesting of a body: five times that of a state. Reading a deeper value would overflow the stack. */
const MAX_NESTING = 1000;

/** The query parameters of a request. Unknown and repeated ones are rejected, so that a typo is noticed. */
export class Query {
  readonly #values: ReadonlyMap<string, string>;

  constructor(parameters: URLSearchParams, names: readonly string[]) {
    const values = new Map<string, string>();
    for (const [name, value] of parameters) {
      if (!names.includes(name)) {
        const known = names.length > 0 ? ` The parameters are: ${names.join(", ")}.` : "";
        throw badRequest(`There is no query parameter ${JSON.stringify(name)}.${known}`);
      }
      if (values.has(name)) throw badRequest(`The query parameter ${JSON.stringify(name)} occurs twice.`);
      values.set(name, value);
    }
    this.#values = values;
  }

  text(name: string): string | undefined {
    return this.#values.get(name) || undefined;
  }

  required(name: string): string {
    const value = this.text(name);
    if (value === undefined) throw badRequest(`The query parameter ${JSON.stringify(name)} is missing.`);
    return value;
  }

  /** A whole number from 0 to `max`. Larger ones are reduced to `max`. */
  count(name: string, max: number): number | undefined {
    const value = this.text(name);
    if (value === undefined) return undefined;
    if (!/^\d{1,16}$/.test(value)) {
      throw badRequest(`${JSON.stringify(name)} must be a non-negative integer, got ${JSON.stringify(value)}.`);
    }
    return Math.min(Number(value), max);
  }

  /** The size of a page: at least 1. */
  limit(max: number, byDefault: number): number {
    return Math.max(1, this.count("limit", max) ?? byDefault);
  }

  oneOf<Value extends string>(name: string, values: readonly Value[]): Value | undefined {
    const value = this.text(name);
    if (value === undefined) return undefined;
    const found = values.find((each) => each === value);
    if (found === undefined) {
      throw badRequest(`${JSON.stringify(name)} must be one of ${values.join(", ")}, got ${JSON.stringify(value)}.`);
    }
    return found;
  }

  flag(name: string): boolean | undefined {
    const value = this.oneOf(name, ["true", "false"]);
    return value === undefined ? undefined : value === "true";
  }
}

/** Reads the JSON object in the body of a request. */
export async function readBody(request: Request): Promise<Readonly<Record<string, unknown>>> {
  const type = request.headers.get("content-type") ?? "";
  if (!/^application\/json\s*(;|$)/i.test(type)) {
    throw new HttpError(415, "UNSUPPORTED_MEDIA_TYPE", "Send JSON, with the header `content-type: application/json`.");
  }
  const text = await readText(request);
  if (isDeeper(text, MAX_NESTING)) throw badRequest(`The body is nested more than ${MAX_NESTING} levels deep.`);
  let body: unknown;
  try {
    body = text === "" ? {} : JSON.parse(text);
  } catch (error) {
    throw badRequest(`The body is not valid JSON: ${(error as Error).message}`);
  }
  if (typeof body !== "object" || body === null || Array.isArray(body)) throw badRequest("The body must be an object.");
  return body as Readonly<Record<string, unknown>>;
}

/** Whether JSON has more levels than this. In time linear in its length, also if it is not valid. */
function isDeeper(json: string, levels: number): boolean {
  let [depth, isInString] = [0, false];
  for (let at = 0; at < json.length; at++) {
    const code = json.charCodeAt(at);
    if (isInString && code === BACKSLASH) at++;
    else if (code === QUOTE) isInString = !isInString;
    else if (isInString) continue;
    else if (code === OPEN_BRACKET || code === OPEN_BRACE) {
      if (++depth > levels) return true;
    } else if (code === CLOSE_BRACKET || code === CLOSE_BRACE) depth--;
  }
  return false;
}

const [QUOTE, BACKSLASH] = [0x22, 0x5c];
const [OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE] = [0x5b, 0x5d, 0x7b, 0x7d];

async function readText(request: Request): Promise<string> {
  const tooLarge = (): HttpError =>
    new HttpError(
      413,
      "TOO_LARGE",
      `The body has more than ${MAX_BODY / 1024 / 1024} MB. Send changes instead of a state.`,
    );
  if (Number(request.headers.get("content-length") ?? 0) > MAX_BODY) throw tooLarge();
  if (!request.body) return "";
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let [text, size] = ["", 0];
  try {
    for await (const chunk of request.body as unknown as AsyncIterable<Uint8Array>) {
      size += chunk.byteLength;
      if (size > MAX_BODY) throw tooLarge();
      text += decoder.decode(chunk, { stream: true });
    }
    return text + decoder.decode();
  } catch (error) {
    if (error instanceof TypeError) throw badRequest("The body is not valid UTF-8, or was cut off.");
    throw error;
  }
}

/** The fields of a body, each read by a function that validates it. Fields without a function are rejected. */
export function readFields<Fields extends object>(
  body: Readonly<Record<string, unknown>>,
  readers: { readonly [Name in keyof Required<Fields>]: (value: unknown, name: string) => Fields[Name] },
): Fields {
  for (const name of Object.keys(body)) {
    if (!Object.hasOwn(readers, name)) throw badRequest(`The body has no field ${JSON.stringify(name)}.`);
  }
  const entries = Object.entries(readers).flatMap(([name, read]) => {
    const value = (read as (value: unknown, name: string) => unknown)(
      Object.hasOwn(body, name) ? body[name] : undefined,
      name,
    );
    return value === undefined ? [] : [[name, value] as const];
  });
  return Object.fromEntries(entries) as Fields;
}

type Reader<Value> = (value: unknown, name: string) => Value;

function expected(name: string, what: string): Error {
  return badRequest(`\`${name}\` must be ${what}.`);
}

export const string: Reader<string> = (value, name) => {
  if (typeof value !== "string") throw expected(name, "a string");
  return value;
};

export const boolean: Reader<boolean> = (value, name) => {
  if (typeof value !== "boolean") throw expected(name, "true or false");
  return value;
};

/** Any JSON value. */
export const anything: Reader<unknown> = (value) => value;

export const object: Reader<Readonly<Record<string, unknown>>> = (value, name) => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw expected(name, "an object");
  return value as Readonly<Record<string, unknown>>;
};

export const array: Reader<readonly unknown[]> = (value, name) => {
  if (!Array.isArray(value)) throw expected(name, "an array");
  return value as readonly unknown[];
};

/** A checkpoint: its seq, or its id or `session#seq`. */
export const checkpointRef: Reader<string | { readonly seq: number }> = (value, name) => {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return { seq: value };
  if (typeof value === "string" && value !== "") return parseCheckpointRef(value);
  throw expected(name, "the seq or the id of a checkpoint");
};

/** A checkpoint in a query parameter: digits are a seq. */
export function parseCheckpointRef(text: string): string | { readonly seq: number } {
  return /^\d{1,15}$/.test(text) ? { seq: Number(text) } : text;
}

/** The checkpoint in a query: its seq or id; `undefined` for the head. */
export function refOf(query: Query, name = "at"): string | { readonly seq: number } | undefined {
  const text = query.text(name);
  return text === undefined ? undefined : parseCheckpointRef(text);
}

/** The same reader for a field that may be missing. */
export function optional<Value>(read: Reader<Value>): Reader<Value | undefined> {
  return (value, name) => (value === undefined ? undefined : read(value, name));
}
