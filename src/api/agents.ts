/** `sp.agents`: agents and their own durable states. */
import { SavepointError } from "../errors.js";
import {
  type AgentChange,
  type AgentContent,
  type AgentFields,
  agentNotFound,
  type AgentRepository,
  type AgentToSave,
  buildAgentState,
  decodeAgentMetadata,
  deleteAgent,
  parseAgent,
  type SavedAgent,
  type SavedAgentInfo,
  type StoredAgent,
  toSavedAgent,
  toSavedAgentInfo,
} from "../agents/index.js";
import { decodeConversationListing } from "../conversations/index.js";
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
import { SessionReader } from "../sessions/index.js";
import { scan, scanPages } from "../store/index.js";
import { validateCount, createListing, type Listing, limitEntries, invalidArgument } from "../util/index.js";
import type { AutoCheckpoints } from "./auto-checkpoints.js";
import type { Services } from "./services.js";

/** Options of `sp.agents.save()` and `sp.agents.update()`. */
export interface SaveAgentOptions {
  /**
   * The version that the stored agent must have, 0 if it must not exist yet; any other version is a `CONFLICT`.
   * @default any version
   */
  readonly expectedVersion?: number;
}

/**
 * The agents of a store. An agent is saved as a whole and versioned: every save raises `version` by one.
 *
 * @example
 * await sp.agents.save({ id: "support", name: "Support", state: { solved: 0 } });
 * await sp.agents.update<{ solved: number }>("support", ({ state }) => ({ state: { solved: state.solved + 1 } }));
 */
export class Agents {
  readonly #services: Services;
  readonly #autoCheckpoints: AutoCheckpoints;

  /** Use `sp.agents`. */
  constructor(services: Services, autoCheckpoints: AutoCheckpoints) {
    this.#services = services;
    this.#autoCheckpoints = autoCheckpoints;
  }

  /**
   * Creates or replaces an agent: fields that are not given become empty. Use {@link update} to change some fields. Writes only
   * what changed.
   *
   * @throws `CONFLICT` if the agent does not have `expectedVersion`
   */
  async save(agent: AgentToSave, options: SaveAgentOptions = {}): Promise<SavedAgentInfo> {
    const { registry } = this.#services.open();
    const unchecked: AgentToSave | undefined = agent;
    const content = parseAgent(unchecked?.id, unchecked, registry);
    this.#services.scope.resolveAgent(agent.id);
    return this.#write(agent.id, () => content, options, true);
  }

  /**
   * Changes some fields of an agent; the others keep their values. Several writers may update an agent at the same time:
   * none of their changes is lost if `change` is a function.
   *
   * @param change the new fields, or a function that returns them for the current agent. It is called again if another writer
   *   was faster, so it must be synchronous and free of side effects
   * @throws `AGENT_NOT_FOUND` if there is no such agent, `CONFLICT` if it does not have `expectedVersion`
   */
  async update<State = Record<string, unknown>>(
    id: string,
    change: Partial<AgentFields<State>> | ((agent: SavedAgent<State>) => Partial<AgentFields<State>>),
    options: SaveAgentOptions = {},
  ): Promise<SavedAgentInfo> {
    const { registry } = this.#services.open();
    checkId(id, "agent id");
    if (change === null || (typeof change !== "object" && typeof change !== "function")) throw invalidFields(id);
    // A copy: the caller may change its object before it is saved.
    const copy = typeof change === "function" ? undefined : parseAgent(id, { name: "", ...change }, registry);
    const build = async (stored: StoredAgent | undefined): Promise<AgentContent> => {
      if (!stored) throw agentNotFound(id);
      const current = toSavedAgent(await this.#repository(id).migrate(stored), []);
      const fields =
        typeof change === "function" ? change(current as SavedAgent<State>) : pick(copy as AgentContent, change);
      if (typeof fields !== "object" || fields === null || fields instanceof Promise) throw invalidFields(id);
      return parseAgent(id, { ...current, ...fields }, registry);
    };
    return this.#write(id, build, options, false);
  }

  /** An agent with its state, migrated to the current version, and its active conversations; `undefined` if there is none. */
  async load<State = Record<string, unknown>>(id: string): Promise<SavedAgent<State> | undefined> {
    const repository = this.#repository(checkId(id, "agent id"));
    const stored = await repository.load();
    if (!stored) return undefined;
    return toSavedAgent(await repository.migrate(stored), await this.#activeConversations(id)) as SavedAgent<State>;
  }

  /** The agents without their states, ordered by id. Reads page by page. */
  list(options: { readonly limit?: number } = {}): Listing<SavedAgentInfo> {
    return createListing(() => limitEntries(this.#walk(), options.limit ?? Number.POSITIVE_INFINITY));
  }

  /**
   * Deletes an agent with all its conversations, sessions and checkpoints, in one transaction.
   *
   * @returns `false` if nothing belonged to this agent
   */
  async delete(id: string): Promise<boolean> {
    const context = this.#services.open();
    return this.#services.search.withoutTexts({ kind: "agent", id: checkId(id, "agent id") }, () =>
      deleteAgent(context, id, (sessions) => {
        for (const sessionId of sessions) this.#services.forgetSession(sessionId);
        this.#services.conversationWriter.forget();
      }),
    );
  }

  async #write(
    id: string,
    build: (stored: StoredAgent | undefined) => Promise<AgentContent> | AgentContent,
    { expectedVersion }: SaveAgentOptions,
    overwrite: boolean,
  ): Promise<SavedAgentInfo> {
    const { now } = this.#services.open();
    validateCount(expectedVersion, "`expectedVersion`");
    const repository = this.#repository(id);
    await this.#checkpointBeforeMigration(repository);
    let saved: SavedAgentInfo | undefined;
    const info = await repository.save(async (stored, last): Promise<AgentChange> => {
      const version = last?.version ?? 0;
      if (expectedVersion !== undefined && expectedVersion !== version)
        throw versionConflict(id, version, expectedVersion);
      const content = await build(stored);
      const { name, type, capabilities, metadata } = content;
      const createdAt = last?.createdAt ?? now();
      const agent = { name, type, capabilities, metadata, createdAt, version: version + 1 };
      saved = { id, ...agent, modifiedAt: 0 };
      const { schema: schemaBefore = 0, snapshots } = stored?.metadata.agent ?? {};
      const schema = repository.schemaAfter(schemaBefore);
      return {
        state: buildAgentState(content, stored?.state.conversations ?? new Map()),
        metadata: { agent: { ...agent, schema, ...(snapshots !== undefined && { snapshots }) }, own: {} },
        options: { kind: "automatic" },
        asCheckpoint: false,
      };
    }, overwrite);
    return { ...(saved as SavedAgentInfo), modifiedAt: info.createdAt };
  }

  /** Saves a checkpoint before the first save in a newer version, if the policy of the agent asks for it. */
  async #checkpointBeforeMigration(repository: AgentRepository): Promise<void> {
    if (this.#services.migrations.of(repository.id).agent.length === 0) return;
    const [branch] = await repository.reader.context.store.get([branchKey(repository.reader.sessionId, MAIN)]);
    const head = branch && "value" in branch ? decodeBranch(branch.value).head : undefined;
    const schema = head && decodeAgentMetadata(head, repository.reader).agent.schema;
    if (schema !== undefined && repository.schemaAfter(schema) > schema) {
      await this.#autoCheckpoints.beforeOperation(repository.id, "migrate");
    }
  }

  #repository(id: string): AgentRepository {
    this.#services.open();
    return this.#services.agentCheckpoints.repository(id);
  }

  async #activeConversations(id: string): Promise<string[]> {
    const context = this.#services.open();
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
    const context = this.#services.open();
    for await (const page of scanPages(context.store, ALL_AGENTS)) {
      for (const record of page) {
        const [, historyId = "", branch] = record.key.split("\t");
        const id = agentOfHistoryId(historyId);
        if (id === undefined || branch !== MAIN) continue;
        const reader = new SessionReader(context, historyId);
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

/** The copied values of the fields that the caller has given. */
function pick(copy: AgentContent, given: Partial<AgentFields>): Partial<AgentContent> {
  return Object.fromEntries(Object.entries(copy).filter(([key]) => key in given));
}

function versionConflict(id: string, version: number, expected: number): SavepointError<"CONFLICT"> {
  const found = version === 0 ? "does not exist" : `has version ${version}`;
  return new SavepointError(
    "CONFLICT",
    `Agent ${JSON.stringify(id)} ${found}, expected version ${expected}. Load it and try again.`,
    { details: { agent: id, version, expectedVersion: expected } },
  );
}

function invalidFields(id: string): SavepointError<"INVALID_ARGUMENT"> {
  return invalidArgument(
    `update(${JSON.stringify(id)}) expects an object with fields, or a synchronous function that returns one. Await asynchronous work before you call update().`,
  );
}
