/** The agents of a store. */
import { SavepointError } from "../errors.js";
import { scan, scanPages } from "../store/index.js";
import {
  type AgentFields,
  AgentRepository,
  agentNotFound,
  type AgentToSave,
  deleteAgent,
  type StoredAgent,
  type AgentChange,
  buildAgentState,
  type SavedAgent,
  type SavedAgentInfo,
  parseAgent,
  type AgentContent,
  toSavedAgent,
  toSavedAgentInfo,
  decodeAgentMetadata,
} from "../agents/index.js";
import { validateCount, createListing, type Listing, limitEntries } from "../util/index.js";
import type { Context } from "../context.js";
import { decodeConversationListing } from "../conversations/index.js";
import { type Cursors, type Migrations, SessionReader } from "../sessions/index.js";
import {
  agentHistoryId,
  agentOfHistoryId,
  ALL_AGENTS,
  branchKey,
  checkId,
  conversationsOf,
  decodeBranch,
  MAIN,
} from "../records/index.js";

/** What the agents need of the Savepoint they belong to. */
export interface AgentHost {
  /** @throws CLOSED */
  open(): Context;
  readonly cursors: Cursors;
  readonly migrations: Migrations;
  /** Takes a checkpoint of the agent before its state is saved in a newer form, where its policy says so. */
  beforeMigration(agent: string): Promise<void>;
  /** Told that sessions and conversations were deleted. */
  forget(sessions: readonly string[]): void;
}

export interface SaveAgentOptions {
  /**
   * The version that it must have: 0 if it must not be there yet. With any other it is `CONFLICT`.
   * @default whatever it has
   */
  readonly expectedVersion?: number;
}

/**
 * The agents of a store.
 *
 * @example
 * await sp.agents.save({ id: "support", name: "Support", state: { solved: 0 } });
 * await sp.agents.update<{ solved: number }>("support", ({ state }) => ({ state: { solved: state.solved + 1 } }));
 */
export class Agents {
  readonly #host: AgentHost;

  /** Use `sp.agents`. */
  constructor(host: AgentHost) {
    this.#host = host;
  }

  /** Saves a whole agent: what is not said is empty afterwards. Only what changed is written. */
  async save(agent: AgentToSave, options: SaveAgentOptions = {}): Promise<SavedAgentInfo> {
    const { registry } = this.#host.open();
    const given: AgentToSave | undefined = agent;
    const taken = parseAgent(given?.id, given, registry);
    return this.#write(given.id, () => taken, options, true);
  }

  /**
   * Changes some fields of an agent; the others stay. `AGENT_NOT_FOUND` if there is none.
   *
   * @param change the fields, or a function that makes them of the agent as it is. It may be called more than once, if
   * others save the agent at the same time
   */
  async update<State = Record<string, unknown>>(
    id: string,
    change: Partial<AgentFields<State>> | ((agent: SavedAgent<State>) => Partial<AgentFields<State>>),
    options: SaveAgentOptions = {},
  ): Promise<SavedAgentInfo> {
    const { registry } = this.#host.open();
    checkId(id, "agent id");
    // The caller's own objects may change before they are saved.
    if (change === null || (typeof change !== "object" && typeof change !== "function")) throw notFields(id);
    const fixed = typeof change === "function" ? undefined : parseAgent(id, { name: "", ...change }, registry);
    const make = async (found: StoredAgent | undefined): Promise<AgentContent> => {
      if (!found) throw agentNotFound(id);
      const current = toSavedAgent(await this.#line(id).migrate(found), []);
      const fields =
        typeof change === "function" ? change(current as SavedAgent<State>) : pick(fixed as AgentContent, change);
      if (typeof fields !== "object" || fields === null || fields instanceof Promise) throw notFields(id);
      return parseAgent(id, { ...current, ...fields }, registry);
    };
    return this.#write(id, make, options, false);
  }

  /** An agent with its state; `undefined` if there is none. */
  async load<State = Record<string, unknown>>(id: string): Promise<SavedAgent<State> | undefined> {
    const line = this.#line(checkId(id, "agent id"));
    const found = await line.load();
    if (!found) return undefined;
    return toSavedAgent(await line.migrate(found), await this.#activeConversations(id)) as SavedAgent<State>;
  }

  /** The agents without their states, in the order of their ids. */
  list(options: { readonly limit?: number } = {}): Listing<SavedAgentInfo> {
    return createListing(() => limitEntries(this.#walk(), options.limit ?? Number.POSITIVE_INFINITY));
  }

  /**
   * Deletes an agent with all its conversations, sessions and checkpoints, in one transaction.
   *
   * @returns whether there was anything of it
   */
  async delete(id: string): Promise<boolean> {
    const context = this.#host.open();
    return deleteAgent(context, checkId(id, "agent id"), (sessions) => this.#host.forget(sessions));
  }

  async #write(
    id: string,
    make: (found: StoredAgent | undefined) => Promise<AgentContent> | AgentContent,
    { expectedVersion }: SaveAgentOptions,
    overwrite: boolean,
  ): Promise<SavedAgentInfo> {
    const { now } = this.#host.open();
    validateCount(expectedVersion, "`expectedVersion`");
    const line = this.#line(id);
    await this.#beforeMigration(line);
    let saved: SavedAgentInfo | undefined;
    const info = await line.save(async (found, last): Promise<AgentChange> => {
      const version = last?.version ?? 0;
      if (expectedVersion !== undefined && expectedVersion !== version)
        throw otherVersion(id, version, expectedVersion);
      const taken = await make(found);
      const { name, type, capabilities, metadata } = taken;
      const createdAt = last?.createdAt ?? now();
      const agent = { name, type, capabilities, metadata, createdAt, version: version + 1 };
      saved = { id, ...agent, modifiedAt: 0 };
      const schema = line.schemaAfter(found?.metadata.agent.schema ?? 0);
      return {
        state: buildAgentState(taken, found?.state.conversations ?? new Map()),
        metadata: { agent: { ...agent, schema }, own: {} },
        options: { kind: "automatic" },
        asCheckpoint: false,
      };
    }, overwrite);
    return { ...(saved as SavedAgentInfo), modifiedAt: info.createdAt };
  }

  async #beforeMigration(line: AgentRepository): Promise<void> {
    if (this.#host.migrations.of(line.id).agent.length === 0) return;
    const [branch] = await line.reader.context.store.get([branchKey(line.reader.sessionId, MAIN)]);
    const head = branch && "value" in branch ? decodeBranch(branch.value).head : undefined;
    const schema = head && decodeAgentMetadata(head, line.reader).agent.schema;
    if (schema !== undefined && line.schemaAfter(schema) > schema) await this.#host.beforeMigration(line.id);
  }

  #line(id: string): AgentRepository {
    return new AgentRepository(this.#host.open(), this.#host.cursors, id, this.#host.migrations.of(id));
  }

  async #activeConversations(id: string): Promise<string[]> {
    const context = this.#host.open();
    const active: string[] = [];
    for await (const record of scan(context.store, conversationsOf(id))) {
      const listed = "value" in record ? decodeConversationListing(record.value) : undefined;
      if (listed && !listed.archived) active.push(listed.id);
      if ("unreadable" in record) {
        const reader = new SessionReader(context, agentHistoryId(id));
        reader.reportDamage(undefined, undefined, `a conversation is not listed: ${record.unreadable}`);
      }
    }
    return active;
  }

  async *#walk(): AsyncGenerator<SavedAgentInfo> {
    const context = this.#host.open();
    for await (const page of scanPages(context.store, ALL_AGENTS)) {
      for (const record of page) {
        const [, session = "", branch] = record.key.split("\t");
        const id = agentOfHistoryId(session);
        if (id === undefined || branch !== MAIN) continue;
        const reader = new SessionReader(context, session);
        if (!("value" in record)) {
          reader.reportDamage(undefined, undefined, `an agent is not listed: ${record.unreadable}`);
          continue;
        }
        const { head } = decodeBranch(record.value);
        if (head) yield toSavedAgentInfo(id, head, decodeAgentMetadata(head, reader));
      }
    }
  }
}

/** Those of the fields that were given. */
function pick(taken: AgentContent, given: Partial<AgentFields>): Partial<AgentContent> {
  return Object.fromEntries(Object.entries(taken).filter(([key]) => key in given));
}

function otherVersion(id: string, version: number, expected: number): SavepointError<"CONFLICT"> {
  const found = version === 0 ? "there is none" : `it has version ${version}`;
  return new SavepointError(
    "CONFLICT",
    `Agent ${JSON.stringify(id)} was expected to have version ${expected}, and ${found}. Load it and try again.`,
    { details: { agent: id, version, expectedVersion: expected } },
  );
}

function notFields(id: string): SavepointError<"INVALID_ARGUMENT"> {
  return new SavepointError(
    "INVALID_ARGUMENT",
    `update(${JSON.stringify(id)}) was given no fields. Give an object, or a function that returns one at once; wait for what it needs before you call update().`,
  );
}
