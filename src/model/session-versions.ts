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

/** The version of what is saved on these heads; nothing where no migrations are declared. Refuses what is too new. */
export function versionOver({ session, branch }: Heads, versions: Versions): { readonly version?: number } {
  const { session: declared } = versions.migrations.of(session?.record.agent ?? versions.agent);
  if (declared.length === 0) return {};
  const found = branch?.record.head?.version ?? 0;
  if (found > declared.length) throw tooOld(describeSession(versions.sessionId), found, declared.length);
  return { version: declared.length };
}

/** A state that was loaded, brought up to date. */
export async function migrateLoaded(
  { sessionId, agent, migrations }: Versions,
  owner: string | undefined,
  version: number,
  state: unknown,
): Promise<unknown> {
  const { session: declared } = migrations.of(owner ?? agent);
  return migrateIfDeclared(describeSession(sessionId), declared, version, state);
}
