/** From what people write to what they mean: checkpoints and sessions, with a guess at what was meant where there is none. */
import type { AnyCheckpointInfo, CheckpointInfo, Savepoint } from "../index.js";
import { ambiguous, notFound, usage } from "./failure.js";
import { clean, shortId } from "./text.js";

/** A checkpoint, and the part of its state that is meant. */
export interface Named {
  readonly info: AnyCheckpointInfo;
  /** A JSON pointer; empty for all of it. */
  readonly pointer: string;
  /** The branch whose newest checkpoint was asked for, where no certain one was. */
  readonly newestOf: string | undefined;
}

/** Sessions that are looked at for one that is called nearly like it. */
const NEAR = 2000;

/** The checkpoint that a name means. A pointer may follow it after a colon; ids may have colons as well. */
export async function findNamed(sp: Savepoint, name: string): Promise<Named> {
  for (let at = name.length; at > 0; at = name.lastIndexOf(":/", at - 1)) {
    const found = await sp.checkpoints.find(name.slice(0, at));
    const [info] = found;
    if (found.length > 1) throw severalMeant(name, found);
    if (info) return { info, pointer: name.slice(at + 1), newestOf: newestOf(info, name.slice(0, at)) };
  }
  throw notFound(`There is no checkpoint ${quote(name)}.${await suggestSession(sp, name)}`);
}

/** The same, for verbs that are about sessions only. */
export async function findOfSession(sp: Savepoint, name: string): Promise<Named & { readonly info: CheckpointInfo }> {
  const { info, ...rest } = await findNamed(sp, name);
  if (info.sessionId !== undefined) return { info, ...rest };
  throw usage(
    `${quote(name)} is a checkpoint of the whole agent ${quote(info.agent)}. Use "savepoint restore" for those.`,
  );
}

function newestOf({ id, sessionId }: AnyCheckpointInfo, name: string): string | undefined {
  if (sessionId === undefined || name === id) return undefined;
  if (name === sessionId) return "main";
  return name.startsWith(`${sessionId}@`) ? name.slice(sessionId.length + 1) : undefined;
}

/** Makes sure that a session is there. */
export async function requireSession(sp: Savepoint, id: string): Promise<string> {
  if (await sp.sessions.load(id)) return id;
  throw notFound(`There is no session ${quote(id)}.${await suggestSession(sp, id)}`);
}

/** How a checkpoint is written so that it is found again. */
export function nameOf(info: AnyCheckpointInfo): string {
  return info.sessionId === undefined ? info.id : `${info.sessionId}#${info.seq}`;
}

/** The part of a value that a JSON pointer leads to. */
export function follow(value: unknown, pointer: string): unknown {
  let at = value;
  for (const step of pointer.split("/").slice(1)) {
    const key = step.replaceAll("~1", "/").replaceAll("~0", "~");
    if (!has(at, key)) throw notFound(`There is nothing at ${clean(pointer)} in that state.${keysOf(at)}`);
    at = at instanceof Map ? at.get(key) : (at as Record<string, unknown>)[key];
  }
  return at;
}

function has(value: unknown, key: string): boolean {
  if (value instanceof Map) return value.has(key);
  return typeof value === "object" && value !== null && Object.hasOwn(value, key) && key !== "length";
}

function keysOf(value: unknown): string {
  if (Array.isArray(value)) return ` The list there has ${value.length} entries.`;
  const keys = value instanceof Map ? [...value.keys()].map(String) : Object.keys((value as object | null) ?? {});
  if (typeof value !== "object" || keys.length === 0) return "";
  const more = keys.length > 8 ? `, and ${keys.length - 8} more` : "";
  return ` There are ${keys.slice(0, 8).map(clean).join(", ")}${more}.`;
}

function severalMeant(name: string, found: readonly AnyCheckpointInfo[]): Error {
  const names = found.slice(0, 5).map((info) => `${nameOf(info)} (${info.id})`);
  const more = found.length > names.length ? ` and ${found.length - names.length} more` : "";
  return ambiguous(`${quote(name)} could be ${names.map(clean).join(" or ")}${more}. Use one of those names.`);
}

async function suggestSession(sp: Savepoint, name: string): Promise<string> {
  const wanted = name.replace(/[#@].*$|:\/.*$/s, "");
  let best: { id: string; distance: number } | undefined;
  let any = false;
  for await (const { id } of sp.sessions.list({ limit: NEAR })) {
    any = true;
    const distance = editDistance(wanted.toLowerCase(), id.toLowerCase());
    if (distance <= Math.max(2, wanted.length / 3) && distance < (best?.distance ?? Number.POSITIVE_INFINITY)) {
      best = { id, distance };
    }
  }
  if (best && best.distance > 0) return ` Did you mean ${quote(best.id)}?`;
  if (best)
    return ` Session ${quote(best.id)} is there: "savepoint log ${clean(best.id)} --all" lists its checkpoints.`;
  return any ? ' "savepoint sessions" lists what is there.' : " Nothing was saved in this store yet.";
}

/** How many letters have to be changed, added or left out. */
function editDistance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > 8) return Number.POSITIVE_INFINITY;
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      next.push(Math.min((row[j] as number) + 1, (next[j - 1] as number) + 1, (row[j - 1] as number) + same));
    }
    row = next;
  }
  return row[b.length] as number;
}

export function quote(name: string): string {
  return JSON.stringify(clean(name));
}

/** How a checkpoint is shown in a sentence. */
export function describe(info: AnyCheckpointInfo): string {
  return `${clean(nameOf(info))} (${shortId(info.id)})`;
}
