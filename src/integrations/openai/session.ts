/** The session of the SDK, stored as a session of the store. */
import type {
  AgentInputItem,
  SessionHistoryRewriteArgs,
  SessionHistoryRewriteAwareSession,
  SessionHistoryTransactionArgs,
  SessionHistoryTransactionAwareSession,
} from "@openai/agents-core";
import type { Savepoint, Session } from "../../index.js";
import { retryWrite } from "../shared/index.js";
import { copyDefined, invalidArgument, isObject } from "./sdk.js";
import { type OpenAiState, parseState } from "./state.js";
import { applyMutations, applyTransaction, isTransactionConflict } from "./transactions.js";

/** Where a `SavepointSession` stores its items. */
export interface SavepointSessionOptions {
  /**
   * The agent that the session belongs to. Set it if the store was opened with a `scope`.
   * @default the agent of the session; "agent" for a new session
   */
  readonly agent?: string;
  /**
   * The branch that is read and written: that of a fork, for example.
   * @default "main"
   */
  readonly branch?: string;
}

/**
 * Stores the history of a session of the OpenAI Agents SDK: its `Session`, with history transactions and rewrites. Each call is durable when
 * it resolves, and writes only its change as a checkpoint: everything that works with sessions works with it, such as history, forks,
 * search, retention, backups and the command line. Earlier checkpoints still have what was removed later.
 *
 * It makes the history durable, but not the run. To continue a run that was interrupted, use {@link durable}. Both can use the same
 * session, one after the other.
 *
 * @example
 * const session = new SavepointSession(sp, "chat-7");
 * await run(agent, "Hello", { session });
 */
export class SavepointSession implements SessionHistoryTransactionAwareSession, SessionHistoryRewriteAwareSession {
  readonly #sp: Savepoint;
  readonly #id: string;
  readonly #options: SavepointSessionOptions;
  #session: Session<OpenAiState>;
  #last: Promise<unknown> = Promise.resolve();

  /**
   * @param sp an open Savepoint; the session does not close it
   * @param id the id of the session in the store
   */
  constructor(sp: Savepoint, id: string, options: SavepointSessionOptions = {}) {
    // Checked by its methods, because the object can come from another copy of the package.
    if (typeof (sp as Partial<Savepoint> | undefined)?.session !== "function") {
      throw invalidArgument(
        'SavepointSession needs an open Savepoint: new SavepointSession(await Savepoint.open(url), "chat-7").',
      );
    }
    this.#sp = sp;
    this.#id = id;
    this.#options = options;
    this.#session = this.#handle();
  }

  async getSessionId(): Promise<string> {
    return this.#id;
  }

  /** The items of the history, the oldest first. @param limit the most recent ones only */
  async getItems(limit?: number): Promise<AgentInputItem[]> {
    await this.#last;
    const { messages } = await this.#read();
    return structuredClone(limit === undefined ? [...messages] : limit > 0 ? messages.slice(-limit) : []);
  }

  /** Appends items in one commit. */
  async addItems(items: AgentInputItem[]): Promise<void> {
    const added = copyItems(items, "addItems(items)");
    if (added.length > 0) await this.#change((state) => ({ ...state, messages: [...state.messages, ...added] }));
  }

  /** Removes and returns the last item. */
  async popItem(): Promise<AgentInputItem | undefined> {
    let popped: AgentInputItem | undefined;
    await this.#change((state) => {
      popped = state.messages.at(-1);
      return popped && { ...state, messages: state.messages.slice(0, -1) };
    });
    return popped && structuredClone(popped);
  }

  /** Removes all items. */
  async clearSession(): Promise<void> {
    await this.#change(({ messages, operations }) =>
      messages.length > 0 || operations ? { messages: [] } : undefined,
    );
  }

  /**
   * Applies a change once, however often it is repeated with its operation id.
   *
   * @throws `CONFLICT` if another transaction has the id, or if the end of the history is not the expected one
   */
  async applyHistoryTransaction(args: SessionHistoryTransactionArgs): Promise<void> {
    const copy = structuredClone(args);
    await this.#change((state) => applyTransaction(state, copy));
  }

  /** Replaces function calls in the history. */
  async applyHistoryMutations({ mutations }: SessionHistoryRewriteArgs): Promise<void> {
    const copies = structuredClone(mutations);
    await this.#change((state) =>
      copies.length > 0 ? { ...state, messages: applyMutations(state.messages, copies) } : undefined,
    );
  }

  /** Replaces the history by a compaction item and what follows it, in one commit. */
  async replaceHistoryWithCompaction(items: AgentInputItem[]): Promise<void> {
    const messages = copyItems(items, "replaceHistoryWithCompaction(items)");
    await this.#change((state) => ({ ...state, messages }));
  }

  #handle(): Session<OpenAiState> {
    return this.#sp.session<OpenAiState>(this.#id, this.#options);
  }

  async #read(): Promise<OpenAiState> {
    // A handle of its own: a read must not move the head that a write builds on.
    const latest = await this.#handle().latest();
    return latest ? parseState(this.#id, latest.state) : { messages: [] };
  }

  /**
   * Saves a change of the newest state, after all earlier calls, and again if another process has written meanwhile.
   *
   * @param change returns `undefined` to leave the state as it is
   */
  #change(change: (state: OpenAiState) => OpenAiState | undefined): Promise<void> {
    const forget = (error: unknown): void => {
      this.#session = this.#handle();
      if (isTransactionConflict(error)) throw error;
    };
    const result = this.#last.then(() => retryWrite(() => this.#changeOnce(change), forget));
    // The caller handles a failure; the next call only waits.
    this.#last = result.catch(() => {});
    return result;
  }

  async #changeOnce(change: (state: OpenAiState) => OpenAiState | undefined): Promise<void> {
    const latest = await this.#session.latest();
    const { turn: _turn, run: _run, ...state } = latest ? parseState(this.#id, latest.state) : { messages: [] };
    const changed = change(state);
    if (!changed) return;
    // Only this lets a save create a branch other than `main`.
    const root = latest || (this.#options.branch ?? "main") === "main" ? {} : { parent: null };
    await this.#session.save(changed, root);
  }
}

/** The caller may change its objects before they are saved. */
function copyItems(items: readonly AgentInputItem[], call: string): AgentInputItem[] {
  if (!Array.isArray(items) || items.some((item: unknown) => !isObject(item))) {
    throw invalidArgument(`${call} needs an array of items.`);
  }
  return copyDefined(structuredClone(items));
}
