/** The versions of a session's states, where its agent has migrations. */
import { shadowToValue } from "../state/index.js";
import type { Author, BranchCursor } from "./branch-cursor.js";
import type { CheckpointInfo } from "../records/index.js";
import { branchMoved } from "./conflicts.js";
import { loadShadow } from "./load-state.js";
import { migrateIfDeclared, type Migrations, agentTooOld } from "./migrations.js";
import { describeSession } from "./errors.js";
import type { SaveFields } from "./save-options.js";
import type { Heads, SessionReader } from "./reader.js";

/** Whose states they are. */
export interface VersionScope {
  readonly sessionId: string;
  /** The agent that the handle names. */
  readonly agent: string | undefined;
  readonly migrations: Migrations;
}

/** The version of what is saved now; nothing where no migrations are declared. */
export function declaredVersion(
  { agent, migrations }: VersionScope,
  owner: string | undefined,
): { readonly version?: number } {
  const { session: declared } = migrations.of(owner ?? agent);
  return declared.length === 0 ? {} : { version: declared.length };
}

/** The version of what is saved on these heads; nothing where no migrations are declared. Refuses what is too new. */
export function versionForSave({ session, branch }: Heads, versions: VersionScope): { readonly version?: number } {
  const said = declaredVersion(versions, session?.record.agent);
  const found = branch?.record.head?.version ?? 0;
  if (said.version !== undefined && found > said.version) {
    throw agentTooOld(describeSession(versions.sessionId), found, said.version);
  }
  return said;
}

/** A state that was loaded, brought up to date. */
export async function migrateLoadedState(
  { sessionId, agent, migrations }: VersionScope,
  owner: string | undefined,
  version: number | undefined,
  state: unknown,
): Promise<unknown> {
  const { session: declared } = migrations.of(owner ?? agent);
  // What was saved before there were any does not know its version.
  return migrateIfDeclared(describeSession(sessionId), declared, version ?? 0, state);
}

/** Saves what `change` makes of a head of an earlier version; `undefined` where the head is none. */
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
  const owner = (await reader.session())?.record.agent;
  const before = await migrateLoadedState(versions, owner, head.version, stored);
  const admit = (heads: Heads): void => {
    author.admit(heads);
    if (heads.branch?.record.head?.id !== head.id) throw branchMoved(reader.sessionId, cursor.branchName, heads);
  };
  return cursor.save({ live: change(before) }, options, { agent: author.agent, admit });
}
