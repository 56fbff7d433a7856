/**
 * Erases a session, a conversation or an agent.
 *
 * Each step can be repeated: an erasure that was interrupted is completed by erasing the same thing again, even though it does
 * not exist any more. It also removes the data that earlier deletions left in the store's files.
 */
import { deleteAgent } from "../agents/index.js";
import { type KnownBackup, listKnownBackups } from "../bundle/index.js";
import type { Context } from "../context.js";
import type { ConversationWriter } from "../conversations/index.js";
import { collectGarbage } from "../gc/index.js";
import { agentOfHistoryId, checkId, conversationsOf } from "../records/index.js";
import type { Search, TextOwner } from "../search/index.js";
import { type Cursors, deleteSession, SessionReader } from "../sessions/index.js";
import { type KeyRange, scanPages } from "../store/index.js";
import { invalidArgument, validateFields } from "../util/index.js";
import { eraseConversation } from "./erase-conversation.js";

/** What to erase: exactly one of these. */
export type EraseTarget = { readonly session: string } | { readonly conversation: string } | { readonly agent: string };

/** Options of `sp.erase()`. */
export interface EraseOptions {
  /** Called when a step begins, and after each session that garbage collection has examined. */
  readonly onProgress?: (progress: EraseProgress) => void;
}

/** The progress of an erasure. */
export interface EraseProgress {
  readonly step: "delete" | "collect" | "scrub";
  /** The sessions that were examined. */
  readonly sessions: number;
}

/** What was erased, and where copies may remain. */
export interface EraseReport {
  /** How many sessions, conversations and agents were deleted. All are zero if the target did not exist. */
  readonly sessions: number;
  readonly conversations: number;
  readonly agents: number;
  /** The number of checkpoints of the agent from which the conversation was removed. */
  readonly checkpoints: number;
  /** Attachments that were freed. */
  readonly blobs: number;
  /** By how many bytes the store has become smaller, or larger if negative: other processes may have saved meanwhile. */
  readonly bytes: number;
  /** Backups that may contain what was erased. Delete them, or wait until they are replaced. */
  readonly backups: readonly KnownBackup[];
  /** Erased data that is still in the store's files, why, and what removes it. Empty if there is none. */
  readonly pending: readonly string[];
  /** Copies outside of the store's files, such as the log of a PostgreSQL server. */
  readonly elsewhere: readonly string[];
}

/** What an erasure uses of the open Savepoint. */
export interface EraseHost {
  readonly search: Search;
  readonly cursors: Cursors;
  readonly conversationWriter: ConversationWriter;
  /** Invalidates the caches and handles of a session that was deleted. */
  forgetSession(id: string): void;
}

const TARGETS = ["session", "conversation", "agent"] as const;

/** Erases a target; see `sp.erase()`. */
export async function erase(
  context: Context,
  target: EraseTarget,
  { onProgress }: EraseOptions,
  host: EraseHost,
): Promise<EraseReport> {
  const { store } = context;
  onProgress?.({ step: "delete", sessions: 0 });
  const owner = parseTarget(target);
  const before = await store.bytes();
  const { damaged, ...deleted } = await host.search.withoutTexts(owner, () => deleteTarget(context, owner, host));
  onProgress?.({ step: "collect", sessions: 0 });
  const collected = await collectGarbage(context, {
    repack: true,
    recentBlobs: true,
    onProgress: ({ sessions }) => onProgress?.({ step: "collect", sessions }),
  });
  onProgress?.({ step: "scrub", sessions: 0 });
  await store.compact();
  const { pending, elsewhere } = (await store.scrub?.()) ?? {};
  return {
    ...deleted,
    blobs: collected.blobs,
    bytes: before - (await store.bytes()),
    backups: await listKnownBackups(context),
    pending: [
      ...damaged.map(checkpointKept),
      ...(collected.complete ? [] : [GARBAGE_KEPT]),
      ...(pending === undefined ? [] : [pending]),
    ],
    elsewhere: elsewhere === undefined ? [] : [elsewhere],
  };
}

const GARBAGE_KEPT =
  'Erased messages and attachments may still be in the store, because something that may refer to them is damaged. Run "savepoint repair", then erase again.';

function checkpointKept(checkpoint: string): string {
  return `${checkpoint} is damaged and may contain the conversation. Run "savepoint repair" or delete the checkpoint, then erase again.`;
}

function parseTarget(target: EraseTarget): TextOwner {
  validateFields(target, "sp.erase()", new Set(TARGETS));
  const [entry, ...more] = Object.entries(target).filter(([, id]) => id !== undefined) as [TextOwner["kind"], string][];
  if (!entry || more.length > 0) {
    throw invalidArgument("sp.erase() needs exactly one of `session`, `conversation` and `agent`.");
  }
  const [kind, id] = entry;
  return { kind, id: checkId(id, `${kind} id`) };
}

interface Deleted extends Pick<EraseReport, "sessions" | "conversations" | "agents" | "checkpoints"> {
  /** Checkpoints that may still contain the conversation. */
  readonly damaged: readonly string[];
}

const NOTHING: Deleted = { sessions: 0, conversations: 0, agents: 0, checkpoints: 0, damaged: [] };

/** Deletes the target. */
async function deleteTarget(context: Context, { kind, id }: TextOwner, host: EraseHost): Promise<Deleted> {
  const { cursors, conversationWriter } = host;
  if (kind === "session") {
    const existed = await deleteSession(new SessionReader(context, id), () => host.forgetSession(id));
    return { ...NOTHING, sessions: existed ? 1 : 0 };
  }
  if (kind === "conversation") {
    return { ...NOTHING, ...(await eraseConversation(context, cursors, conversationWriter, id)) };
  }
  const conversations = await countRecords(context, conversationsOf(id));
  let deleted = NOTHING;
  await deleteAgent(context, id, (sessions) => {
    for (const session of sessions) host.forgetSession(session);
    conversationWriter.forget();
    const agents = sessions.filter((session) => agentOfHistoryId(session) !== undefined).length;
    deleted = { ...NOTHING, conversations, agents, sessions: sessions.length - agents };
  });
  return deleted;
}

async function countRecords({ store }: Context, range: KeyRange): Promise<number> {
  let count = 0;
  for await (const page of scanPages(store, range)) count += page.length;
  return count;
}
