/** Bringing states of earlier versions of an agent up to date. */
import { SavepointError } from "../errors.js";

/** Makes a state of the next version of one of the version before. Say in TypeScript what that one is. */
export type Migration = { migrate(state: unknown): unknown }["migrate"];

/** The migrations of one agent. The first of each list brings up to date what was saved before there were any. */
export interface AgentMigrations {
  /** For the agent's own state. */
  readonly agent?: readonly Migration[];
  /** For the states of its sessions. */
  readonly session?: readonly Migration[];
}

/** The same with everything filled in. */
export interface MigrationPlan {
  readonly agent: readonly Migration[];
  readonly session: readonly Migration[];
}

const NONE: MigrationPlan = { agent: [], session: [] };

/** The migrations of agents, by their ids. */
export class Migrations {
  readonly #byAgent: ReadonlyMap<string, MigrationPlan>;

  constructor(given: Readonly<Record<string, AgentMigrations>> = {}) {
    this.#byAgent = new Map(
      Object.entries(given).map(([id, { agent = [], session = [] }]) => {
        for (const migration of [...agent, ...session]) {
          if (typeof migration !== "function") throw notAFunction(id);
        }
        return [id, { agent: [...agent], session: [...session] }];
      }),
    );
  }

  /** Has nobody declared any? */
  get isEmpty(): boolean {
    return this.#byAgent.size === 0;
  }

  of(agent: string | undefined): MigrationPlan {
    return (agent === undefined ? undefined : this.#byAgent.get(agent)) ?? NONE;
  }
}

/**
 * A state that has been through `version` migrations, after all of these. A migration changes the state that it gets, or
 * returns another one.
 *
 * @param whose begins the sentence that is told where it fails
 */
export async function migrateState(
  whose: string,
  migrations: readonly Migration[],
  version: number,
  state: unknown,
): Promise<unknown> {
  if (version > migrations.length) throw agentTooOld(whose, version, migrations.length);
  let current = state;
  for (const [index, migrate] of migrations.slice(version).entries()) {
    try {
      current = (await migrate(current)) ?? current;
    } catch (cause) {
      throw new SavepointError(
        "AGENT_FAILED",
        `${whose} cannot be brought up to date: the migration from version ${version + index} has thrown ${String(cause)}`,
        { cause },
      );
    }
  }
  return current;
}

/** The same, unless there are no migrations: whoever declares none makes no claim about versions. */
export async function migrateIfDeclared(...args: Parameters<typeof migrateState>): Promise<unknown> {
  return args[1].length === 0 ? args[3] : migrateState(...args);
}

export function agentTooOld(whose: string, version: number, known: number): SavepointError<"AGENT_TOO_OLD"> {
  return new SavepointError(
    "AGENT_TOO_OLD",
    `${whose} was saved by version ${version} of its agent; this is version ${known}. Use the newer one. Nothing was changed.`,
    { details: { version, known } },
  );
}

function notAFunction(agent: string): SavepointError {
  return new SavepointError(
    "INVALID_ARGUMENT",
    `A migration of agent ${JSON.stringify(agent)} is not a function: give { agent: [fn], session: [fn] }.`,
  );
}
