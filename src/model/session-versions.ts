/** The versions of a session's states, where its agent has migrations. */
import { migrateIfDeclared, type Migrations, tooOld } from "./migrations.js";
import { describeSession } from "./session-errors.js";
import type { Heads } from "./session-reader.js";

/** Whose states they are. */
export interface Versions {
  readonly sessionId: string;
  /** The agent that the handle names. */
  readonly agent: string | undefined;
  readonly migrations: Migrations;
}

/** The version of what is saved now; nothing where no migrations are declared. */
export function declaredVersion(
  { agent, migrations }: Versions,
  owner: string | undefined,
): { readonly version?: number } {
  const { session: declared } = migrations.of(owner ?? agent);
  return declared.length === 0 ? {} : { version: declared.length };
}

/** The version of what is saved on these heads; nothing where no migrations are declared. Refuses what is too new. */
export function versionOver({ session, branch }: Heads, versions: Versions): { readonly version?: number } {
  const said = declaredVersion(versions, session?.record.agent);
  const found = branch?.record.head?.version ?? 0;
  if (said.version !== undefined && found > said.version) {
    throw tooOld(describeSession(versions.sessionId), found, said.version);
  }
  return said;
}

/** A state that was loaded, brought up to date. */
export async function migrateLoaded(
  { sessionId, agent, migrations }: Versions,
  owner: string | undefined,
  version: number | undefined,
  state: unknown,
): Promise<unknown> {
  const { session: declared } = migrations.of(owner ?? agent);
  // What was saved before there were any does not know its version.
  return migrateIfDeclared(describeSession(sessionId), declared, version ?? 0, state);
}
