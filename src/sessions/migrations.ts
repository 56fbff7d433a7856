/** Migrations of states that earlier versions of an agent saved. */
import { SavepointError } from "../errors.js";

/** Converts a state to the next version. Annotate the parameter with the type of the previous version. */
export type Migration = { migrate(state: unknown): unknown }["migrate"];

/** The migrations of one agent, oldest first. The first converts states that were saved before any migration existed. */
export interface AgentMigrations {
  /** Migrations of the agent's own state. @default none */
  readonly agent?: readonly Migration[];
  /** Migrations of the states of its sessions. @default none */
  readonly session?: readonly Migration[];
}

/** {@link AgentMigrations} with both lists present. */
export type MigrationPlan = Required<AgentMigrations>;

const NONE: MigrationPlan = { agent: [], session: [] };

/** The declared migrations of all agents, by agent id. */
export class Migrations {
  readonly #byAgent: ReadonlyMap<string, MigrationPlan>;

  constructor(migrations: Readonly<Record<string, AgentMigrations>> = {}) {
    this.#byAgent = new Map(
      Object.entries(migrations).map(([id, { agent = [], session = [] }]) => {
        for (const migration of [...agent, ...session]) {
          if (typeof migration !== "function") throw notAFunction(id);
        }
        return [id, { agent: [...agent], session: [...session] }];
      }),
    );
  }

  /** Whether no migrations are declared. */
  get isEmpty(): boolean {
    return this.#byAgent.size === 0;
  }

  /** The migrations of an agent; empty lists if it declared none. */
  of(agent: string | undefined): MigrationPlan {
    return (agent === undefined ? undefined : this.#byAgent.get(agent)) ?? NONE;
  }
}

/**
 * Applies the migrations from `version` on. A migration either changes the state in place or returns another one.
 *
 * @param whose the subject of error messages, such as `Session "x"`
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
        `${whose} cannot be migrated: the migration from version ${version + index} threw ${String(cause)}`,
        { cause },
      );
    }
  }
  return current;
}

/** Like {@link migrateState}, but returns the state unchanged if no migrations are declared: then versions mean nothing. */
export async function migrateIfDeclared(...args: Parameters<typeof migrateState>): Promise<unknown> {
  return args[1].length === 0 ? args[3] : migrateState(...args);
}

export function agentTooOld(whose: string, version: number, known: number): SavepointError<"AGENT_TOO_OLD"> {
  return new SavepointError(
    "AGENT_TOO_OLD",
    `${whose} was saved by version ${version} of its agent, and this process has version ${known}. Update the agent. Nothing was changed.`,
    { details: { version, known } },
  );
}

function notAFunction(agent: string): SavepointError {
  return new SavepointError(
    "INVALID_ARGUMENT",
    `A migration of agent ${JSON.stringify(agent)} is not a function. Pass { agent: [fn], session: [fn] }.`,
  );
}
