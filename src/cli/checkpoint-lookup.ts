/** From what people write to what they mean: checkpoints and sessions, with a guess at what was meant where there is none. */
import { type AnyCheckpointInfo, type CheckpointInfo, isSavepointError, type Savepoint } from "../index.js";
import { findClosestName } from "./did-you-mean.js";
import { ambiguousError, notFoundError, usageError } from "./errors.js";
import { sanitize, shortId } from "./terminal-text.js";

/** A checkpoint, and the part of its state that is meant. */
export interface CheckpointMatch {
  readonly info: AnyCheckpointInfo;
  /** A JSON pointer; empty for all of it. */
  readonly pointer: string;
  /** The branch whose newest checkpoint was asked for, where no certain one was. */
  readonly headOfBranch: string | undefined;
}

/** Sessions that are looked at for one that is called nearly like it. */
const NEAR = 2000;

/** The checkpoint that a name means. A pointer may follow it after a colon; ids may have colons as well. */
export async function findCheckpointPart(sp: Savepoint, name: string): Promise<CheckpointMatch> {
  for (let at = name.length; at > 0; at = name.lastIndexOf(":/", at - 1)) {
    const found = await sp.checkpoints.find(name.slice(0, at)).catch((error: unknown) => {
      // What cannot be an id is none; what follows it may be a pointer.
      if (isSavepointError(error, "INVALID_ID") && name.includes(":/")) return [];
      throw error;
    });
    const [info] = found;
    if (found.length > 1) throw severalMeant(name, found);
    if (info) return { info, pointer: name.slice(at + 1), headOfBranch: newestOf(info, name.slice(0, at)) };
  }
  throw notFoundError(`There is no checkpoint ${quote(name)}.${await suggestSession(sp, name)}`);
}

/** The same, for verbs that are about whole checkpoints. */
export async function findCheckpoint(sp: Savepoint, name: string): Promise<CheckpointMatch> {
  const named = await findCheckpointPart(sp, name);
  if (named.pointer === "") return named;
  throw usageError(
    `${quote(name)} names a part of a state. This is about whole checkpoints: ${describeCheckpoint(named.info)}.`,
  );
}

/** The same, for those that are about checkpoints of sessions only. */
export async function findSessionCheckpoint(
  sp: Savepoint,
  name: string,
  find = findCheckpoint,
): Promise<CheckpointMatch & { readonly info: CheckpointInfo }> {
  const { info, ...rest } = await find(sp, name);
  if (info.sessionId !== undefined) return { info, ...rest };
  throw usageError(
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
  throw notFoundError(`There is no session ${quote(id)}.${await suggestSession(sp, id)}`);
}

/** Makes sure that a branch is there, where one is named. */
export async function requireBranch(sp: Savepoint, id: string, branch: string | undefined): Promise<void> {
  if (branch === undefined) return;
  const names: string[] = [];
  for await (const { name } of sp.session(id).branches()) names.push(name);
  if (!names.includes(branch)) {
    throw notFoundError(
      `Session ${quote(id)} has no branch ${quote(branch)}. There are: ${names.map(sanitize).join(", ")}.`,
    );
  }
}

/** Makes sure that there is an agent, or anything that is its own. */
export async function requireAgent(sp: Savepoint, id: string): Promise<void> {
  if (await sp.agents.load(id)) return;
  for (const listing of [sp.sessions.list({ agent: id, limit: 1 }), sp.conversations.list({ agent: id, limit: 1 })]) {
    for await (const _ of listing) return;
  }
  throw notFoundError(`There is no agent ${quote(id)}. "savepoint agents" lists them.`);
}

/** How a checkpoint is written so that it is found again. */
export function checkpointName(info: AnyCheckpointInfo): string {
  return info.sessionId === undefined ? info.id : `${info.sessionId}#${info.seq}`;
}

/** The part of a value that a JSON pointer leads to. */
export function resolvePointer(value: unknown, pointer: string): unknown {
  let at = value;
  for (const step of pointer.split("/").slice(1)) {
    const key = step.replaceAll("~1", "/").replaceAll("~0", "~");
    if (!has(at, key)) throw notFoundError(`There is nothing at ${sanitize(pointer)} in that state.${keysOf(at)}`);
    at = at instanceof Map ? at.get(key) : (at as Record<string, unknown>)[key];
  }
  return at;
}

function has(value: unknown, key: string): boolean {
  if (value instanceof Map) return value.has(key);
  // A list has a length as well, and that is no part of it.
  if (Array.isArray(value) && !/^\d+$/.test(key)) return false;
  return typeof value === "object" && value !== null && Object.hasOwn(value, key);
}

function keysOf(value: unknown): string {
  if (Array.isArray(value)) return ` The list there has ${value.length} entries.`;
  const keys = value instanceof Map ? [...value.keys()].map(String) : Object.keys((value as object | null) ?? {});
  if (typeof value !== "object" || keys.length === 0) return "";
  const more = keys.length > 8 ? `, and ${keys.length - 8} more` : "";
  return ` There are ${keys.slice(0, 8).map(sanitize).join(", ")}${more}.`;
}

function severalMeant(name: string, found: readonly AnyCheckpointInfo[]): Error {
  const names = found.slice(0, 5).map((info) => `${checkpointName(info)} (${info.id})`);
  const more = found.length > names.length ? ` and ${found.length - names.length} more` : "";
  return ambiguousError(`${quote(name)} could be ${names.map(sanitize).join(" or ")}${more}. Use one of those names.`);
}

async function suggestSession(sp: Savepoint, name: string): Promise<string> {
  const wanted = name.replace(/[#@].*$|:\/.*$/s, "");
  const ids: string[] = [];
  for await (const { id } of sp.sessions.list({ limit: NEAR })) ids.push(id);
  if (ids.includes(wanted)) {
    return ` Session ${quote(wanted)} is there: "savepoint log ${sanitize(wanted)} --all" lists its checkpoints.`;
  }
  const meant = findClosestName(wanted, ids);
  if (meant !== undefined) return ` Did you mean ${quote(meant)}?`;
  return ids.length > 0 ? ' "savepoint sessions" lists what is there.' : " Nothing was saved in this store yet.";
}

export function quote(name: string): string {
  return `"${sanitize(name)}"`;
}

/** How a checkpoint is shown in a sentence. */
export function describeCheckpoint(info: AnyCheckpointInfo): string {
  return `${sanitize(checkpointName(info))} (${shortId(info.id)})`;
}
