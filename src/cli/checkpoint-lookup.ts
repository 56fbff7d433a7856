/** Finds checkpoints, sessions, branches and agents by their names on the command line, or suggests similar names. */
import {
  type AnyCheckpointInfo,
  type CheckpointInfo,
  isSavepointError,
  type Savepoint,
  type SessionInfo,
} from "../index.js";
import { findClosestName } from "./did-you-mean.js";
import { ambiguousError, notFoundError, usageError } from "./errors.js";
import { quote, shortId } from "./format.js";
import { quoteForShell, suggestCommand } from "./shell.js";

/** A checkpoint, and optionally a part of its state. */
export interface NamedCheckpoint {
  readonly info: AnyCheckpointInfo;
  /** A JSON pointer into the state; empty for all of it. */
  readonly pointer: string;
  /** The branch, if the name means the head of a branch and not a certain checkpoint. */
  readonly headOfBranch: string | undefined;
}

/** How many sessions are compared with a name that matches none. */
const MAX_SUGGESTION_CANDIDATES = 2000;

/** Finds the checkpoint for a name, which may end with a colon and a JSON pointer. Ids may contain colons too. */
export async function findCheckpointPart(sp: Savepoint, name: string): Promise<NamedCheckpoint> {
  for (let at = name.length; at > 0; at = name.lastIndexOf(":/", at - 1)) {
    const match = await findRelative(sp, name.slice(0, at)).catch((error: unknown) => {
      // The text up to a later colon may be no valid id, and the text up to an earlier one may be one.
      if (isSavepointError(error, "INVALID_ID") && name.includes(":/")) return undefined;
      throw error;
    });
    if (match) return { ...match, pointer: name.slice(at + 1) };
  }
  throw notFoundError(`There is no checkpoint ${quote(name)}.${await suggestSession(sp, name)}`);
}

type RelativeMatch = Omit<NamedCheckpoint, "pointer">;

/** Finds the checkpoint for a name without a pointer, which may end with `~` and a number: that many steps back to the parent. */
async function findRelative(sp: Savepoint, name: string): Promise<RelativeMatch | undefined> {
  const found = await sp.checkpoints.find(name);
  const [info] = found;
  if (found.length > 1) throw severalMatches(name, found);
  // An id may end like this too, and an exact name comes first.
  if (info) return { info, headOfBranch: branchOf(info, name) };
  const [, base, digits] = /^(.+)~(\d*)$/su.exec(name) ?? [];
  const from = base === undefined ? undefined : await findRelative(sp, base);
  if (!from) return undefined;
  const distance = digits === "" ? 1 : Number(digits);
  if (distance === 0) return from;
  let ancestor = from.info;
  for (let back = 0; back < distance; back++) {
    const [parent] = ancestor.parentId === undefined ? [] : await sp.checkpoints.find(ancestor.parentId);
    if (!parent) {
      const end = ancestor.parentId === undefined ? "is the first checkpoint" : "has a parent that was removed";
      throw notFoundError(`There is no checkpoint ${quote(name)}: ${describeCheckpoint(ancestor)} ${end}.`);
    }
    ancestor = parent;
  }
  return { info: ancestor, headOfBranch: undefined };
}

/** Finds the checkpoint for a name without a pointer. */
export async function findCheckpoint(sp: Savepoint, name: string): Promise<NamedCheckpoint> {
  const match = await findCheckpointPart(sp, name);
  if (match.pointer === "") return match;
  throw usageError(
    `${quote(name)} names a part of a state. Name the checkpoint without a pointer: ${describeCheckpoint(match.info)}.`,
  );
}

/** Finds the checkpoint for a name, which must be one of a session and not of an agent. */
export async function findSessionCheckpoint(
  sp: Savepoint,
  name: string,
  find = findCheckpoint,
): Promise<NamedCheckpoint & { readonly info: CheckpointInfo }> {
  const { info, ...rest } = await find(sp, name);
  if (info.sessionId !== undefined) return { info, ...rest };
  throw usageError(
    `${quote(name)} is a checkpoint of agent ${quote(info.agent)}, not of a session. Use "savepoint restore" for it.`,
  );
}

/** The branch whose head a name means. */
function branchOf({ id, sessionId }: AnyCheckpointInfo, name: string): string | undefined {
  if (sessionId === undefined || name === id) return undefined;
  if (name === sessionId) return "main";
  return name.startsWith(`${sessionId}@`) ? name.slice(sessionId.length + 1) : undefined;
}

/** @throws if the session does not exist, or if a branch is named and does not exist */
export async function requireSession(sp: Savepoint, id: string, branch?: string): Promise<SessionInfo> {
  const info = await sp.sessions.load(id);
  if (!info) throw notFoundError(`There is no session ${quote(id)}.${await suggestBranch(sp, id)}`);
  if (branch === undefined) return info;
  const names: string[] = [];
  for await (const { name } of sp.session(id).branches()) names.push(name);
  if (names.includes(branch)) return info;
  throw notFoundError(`Session ${quote(id)} has no branch ${quote(branch)}. Its branches: ${names.join(", ")}.`);
}

/** @throws if a session or an agent is named and does not exist */
export async function requireScope(
  sp: Savepoint,
  { session, agent }: { readonly session?: string; readonly agent?: string },
): Promise<void> {
  if (session !== undefined) await requireSession(sp, session);
  if (agent !== undefined) await requireAgent(sp, agent);
}

/** @throws if there is neither an agent with this id nor a session or conversation of it */
async function requireAgent(sp: Savepoint, id: string): Promise<void> {
  if (await sp.agents.load(id)) return;
  for (const listing of [sp.sessions.list({ agent: id, limit: 1 }), sp.conversations.list({ agent: id, limit: 1 })]) {
    for await (const _ of listing) return;
  }
  throw notFoundError(`There is no agent ${quote(id)}. "savepoint agents" lists them.`);
}

/** The name under which a checkpoint is found again: `session#seq`, or the id for a checkpoint of an agent. */
export function checkpointName(info: AnyCheckpointInfo): string {
  return info.sessionId === undefined ? info.id : `${info.sessionId}#${info.seq}`;
}

/** A checkpoint in a sentence: its name and its short id. */
export function describeCheckpoint(info: AnyCheckpointInfo): string {
  return `${checkpointName(info)} (${shortId(info.id)})`;
}

function severalMatches(name: string, found: readonly AnyCheckpointInfo[]): Error {
  const names = found.slice(0, 5).map((info) => `${checkpointName(info)} (${info.id})`);
  const more = found.length > names.length ? ` and ${found.length - names.length} more` : "";
  return ambiguousError(`${quote(name)} is ambiguous. It matches ${names.join(", ")}${more}. Use one of these names.`);
}

/** For a name such as `order-88@what-if` where only a session is expected. */
async function suggestBranch(sp: Savepoint, name: string): Promise<string> {
  const [, id = "", branch = ""] = /^(.+)@(.+)$/su.exec(name) ?? [];
  if (id === "" || !(await sp.sessions.load(id).catch(() => undefined))) return suggestSession(sp, name);
  return ` The branch of a session is an option: ${quoteForShell(id)} --branch ${quoteForShell(branch)}`;
}

async function suggestSession(sp: Savepoint, name: string): Promise<string> {
  const ids: string[] = [];
  for await (const { id } of sp.sessions.list({ limit: MAX_SUGGESTION_CANDIDATES })) ids.push(id);
  // Ids may contain these characters too.
  const session = ids.find((id) => name.startsWith(id) && /^(?:$|[#@~]|:\/)/.test(name.slice(id.length)));
  if (session !== undefined)
    return ` "${suggestCommand("log", [session], "--all")}" lists the checkpoints of the session.`;
  const closest = findClosestName(name.replace(/[#@~].*$|:\/.*$/s, ""), ids);
  if (closest !== undefined) return ` Did you mean ${quote(closest)}?`;
  return ids.length > 0 ? ' "savepoint sessions" lists the sessions.' : " The store is empty.";
}
