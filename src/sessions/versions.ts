/** The versions of a session's states, for agents with migrations. */
import { shadowToValue } from "../state/index.js";
import type { Author, BranchCursor } from "./branch-cursor.js";
import type { CheckpointInfo } from "../records/index.js";
import { branchMoved } from "./conflicts.js";
import { loadShadow } from "./load-state.js";
import { migrateIfDeclared, type Migrations, agentTooOld } from "./migrations.js";
import { describeSession } from "./errors.js";
import type { SaveFields } from "./save-options.js";
import type { Heads, SessionReader } from "./reader.js";

/** The session whose states are versioned, and the declared migrations. */
export interface VersionScope {
  readonly sessionId: string;
  /** The agent that the handle was opened with. */
  readonly agent: string | undefined;
  readonly migrations: Migrations;
}

/** The version of a new state; empty if no migrations are declared. */
export function declaredVersion(
  { agent, migrations }: VersionScope,
  sessionAgent: string | undefined,
): { readonly version?: number } {
  const { session: declared } = migrations.of(sessionAgent ?? agent);
  return declared.length === 0 ? {} : { version: declared.length };
}

/** The version of a state that is saved on these heads. Throws `AGENT_TOO_OLD` if the head has a newer version. */
export function versionForSave({ session, branch }: Heads, versions: VersionScope): { readonly version?: number } {
  const declared = declaredVersion(versions, session?.record.agent);
  const headVersion = branch?.record.head?.version ?? 0;
  if (declared.version !== undefined && headVersion > declared.version) {
    throw agentTooOld(describeSession(versions.sessionId), headVersion, declared.version);
  }
  return declared;
}

/** Migrates a loaded state to the current version. */
export async function migrateLoadedState(
  { sessionId, agent, migrations }: VersionScope,
  sessionAgent: string | undefined,
  version: number | undefined,
  state: unknown,
): Promise<unknown> {
  const { session: declared } = migrations.of(sessionAgent ?? agent);
  // A state that was saved before any migration was declared has no version.
  return migrateIfDeclared(describeSession(sessionId), declared, version ?? 0, state);
}

/** Migrates a head of an earlier version, applies `change` and saves the result; returns `undefined` if the head is current. */
export async function saveMigrated(
  reader: SessionReader,
  cursor: BranchCursor,
  versions: VersionScope,
  change: (state: unknown) => unknown,
  options: SaveFields,
  author: Author,
): Promise<CheckpointInfo | undefined> {
  const { head, sessionNumber } = cursor;
  if (options.version === undefined || !head || sessionNumber === undefined) return undefined;
  if (options.version === (head.version ?? 0)) return undefined;
  const stored = shadowToValue(await loadShadow(reader, sessionNumber, head), reader.context.registry);
  const sessionAgent = (await reader.session())?.record.agent;
  const before = await migrateLoadedState(versions, sessionAgent, head.version, stored);
  const admit = (heads: Heads): void => {
    author.admit(heads);
    if (heads.branch?.record.head?.id !== head.id) throw branchMoved(reader.sessionId, cursor.branchName, heads);
  };
  return cursor.save({ live: change(before) }, options, { agent: author.agent, admit });
}
