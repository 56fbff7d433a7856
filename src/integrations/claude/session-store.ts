/** The session store for the Claude Agent SDK. */
import type { CheckpointInfo, Savepoint, Session } from "../../index.js";
import { agentOf, invalidArgument, keyOf, parseKey, requireName, sessionIdOf } from "./keys.js";
import { Summaries } from "./summaries.js";
import { Transcript } from "./transcript.js";
import type { FoldSessionSummary, SessionKey, SessionSummary, TranscriptEntry, TranscriptState } from "./types.js";

/** How a `SavepointSessionStore` stores transcripts. */
export interface SavepointSessionStoreOptions {
  /**
   * The agent that the sessions belong to. Set it if the store was opened with a `scope`. Listing the sessions of a project then reads
   * those of all projects of the agent.
   * @default an agent for each project, `claude:` and the project's key
   */
  readonly agent?: string;
  /**
   * The branch that is read and written: that of a fork, for example.
   * @default "main"
   */
  readonly branch?: string;
  /**
   * The SDK's function `foldSessionSummary`. Pass it in a bundled program, where packages are not found by name.
   * @default loaded from the package `@anthropic-ai/claude-agent-sdk`
   */
  readonly foldSessionSummary?: FoldSessionSummary;
  /**
   * The clock, in milliseconds since 1970.
   * @default Date.now
   */
  readonly now?: () => number;
}

/** The most transcripts that are cached for appending. An evicted one is read again. */
const MAX_TRANSCRIPTS = 100;

/**
 * Stores the transcripts of the Claude Agent SDK: its `SessionStore`. Each session of the SDK is a session of the store, with the
 * transcripts of its subagents, and each append is a checkpoint that writes only the new entries. Everything that works with sessions
 * works with transcripts: history, forks, search, retention, backups and the command line.
 *
 * An append is durable when it resolves. Entries with a uuid are stored once. Any number of processes may append to one session.
 *
 * @example
 * const sp = await Savepoint.open("sqlite:./agents.db");
 * const sessionStore = new SavepointSessionStore(sp);
 * for await (const message of query({ prompt, options: { sessionStore, resume: sessionId } })) console.log(message);
 */
export class SavepointSessionStore {
  readonly #sp: Savepoint;
  readonly #options: SavepointSessionStoreOptions;
  readonly #summaries: Summaries;
  readonly #transcripts = new Map<string, Transcript>();
  #lastTime = 0;

  /** @param sp an open Savepoint; the store does not close it */
  constructor(sp: Savepoint, options: SavepointSessionStoreOptions = {}) {
    // Checked by its methods, because the object can come from another copy of the package.
    if (typeof (sp as Partial<Savepoint> | undefined)?.session !== "function") {
      throw invalidArgument(
        "SavepointSessionStore needs an open Savepoint: new SavepointSessionStore(await Savepoint.open(url)).",
      );
    }
    this.#sp = sp;
    this.#options = options;
    this.#summaries = new Summaries(options.foldSessionSummary);
  }

  /**
   * Appends entries to a transcript, in one commit, after all earlier calls. Entries whose uuid is already in the transcript are skipped, so an append can be repeated; entries without a uuid are always appended. Costs O(entries), except the first time in this process.
   */
  async append(key: SessionKey, entries: TranscriptEntry[]): Promise<void> {
    const parsed = parseKey(key);
    if (!Array.isArray(entries) || entries.some((entry: unknown) => typeof entry !== "object" || entry === null))
      throw invalidArgument("append(key, entries) needs an array of entries, each of them an object.");
    await this.#transcript(parsed).append(parsed, copyEntries(entries));
  }

  /** The entries of a transcript; `null` if it was never written. */
  async load(key: SessionKey): Promise<TranscriptEntry[] | null> {
    const parsed = parseKey(key);
    return this.#transcript(parsed).load(parsed);
  }

  /** The sessions of a project. Reads no transcripts. */
  async listSessions(projectKey: string): Promise<{ sessionId: string; mtime: number }[]> {
    const found: { sessionId: string; mtime: number }[] = [];
    for await (const { key, head } of this.#list(projectKey)) {
      const { mtime } = await this.#transcript(key).outline(head);
      if (mtime !== undefined) found.push({ sessionId: key.sessionId, mtime });
    }
    return found;
  }

  /**
   * The SDK's summaries of the sessions of a project. They are stored with each append, so this reads no transcripts, except those that
   * were written where the SDK was not installed.
   */
  async listSessionSummaries(projectKey: string): Promise<SessionSummary[]> {
    const found: SessionSummary[] = [];
    for await (const { key, head } of this.#list(projectKey)) {
      const transcript = this.#transcript(key);
      const { mtime, summary } = await transcript.outline(head);
      if (mtime === undefined) continue;
      const all = summary ? [] : ((await transcript.state())?.messages ?? []);
      const data = summary ?? (await this.#summaries.require(key, undefined, all, mtime));
      found.push({ sessionId: key.sessionId, mtime, data });
    }
    return found;
  }

  /**
   * Deletes a session with the transcripts of its subagents and with all its branches, in one transaction; with a `subpath`, only that
   * transcript. Earlier checkpoints of the session still contain a transcript that was deleted with its `subpath`.
   */
  async delete(key: SessionKey): Promise<void> {
    const parsed = parseKey(key);
    const transcript = this.#transcript(parsed);
    await (parsed.subpath === undefined ? transcript.delete() : transcript.remove(parsed.subpath));
  }

  /** The subpaths of the subagents of a session. */
  async listSubkeys(key: { projectKey: string; sessionId: string }): Promise<string[]> {
    const { projectKey, sessionId } = parseKey(key);
    return this.#transcript({ projectKey, sessionId }).subpaths();
  }

  /** The session that stores a transcript, on the branch of this store. Its state is a {@link TranscriptState}. */
  session(key: SessionKey): Session<TranscriptState> {
    return this.#transcript(parseKey(key)).session();
  }

  #transcript(key: SessionKey): Transcript {
    const id = sessionIdOf(key);
    const transcript = this.#transcripts.get(id) ?? new Transcript(this.#context(), key);
    // The most recently used one is the last.
    this.#transcripts.delete(id);
    this.#transcripts.set(id, transcript);
    if (this.#transcripts.size > MAX_TRANSCRIPTS) {
      for (const [other, { isIdle }] of this.#transcripts) {
        if (!isIdle || other === id) continue;
        this.#transcripts.delete(other);
        break;
      }
    }
    return transcript;
  }

  #context(): ConstructorParameters<typeof Transcript>[0] {
    return {
      sp: this.#sp,
      branch: this.#options.branch ?? "main",
      summaries: this.#summaries,
      agentOf: (projectKey) => this.#options.agent ?? agentOf(projectKey),
      nextTime: (after = 0) => {
        const now = Math.floor((this.#options.now ?? Date.now)());
        this.#lastTime = Math.max(now, this.#lastTime + 1, after + 1);
        return this.#lastTime;
      },
    };
  }

  /** The sessions of a project with their heads, the most recently created first. */
  async *#list(projectKey: string): AsyncGenerator<{ key: SessionKey; head: CheckpointInfo | undefined }> {
    requireName(projectKey, "projectKey");
    const { agent = agentOf(projectKey), branch = "main" } = this.#options;
    for await (const { id, head } of this.#sp.sessions.list({ agent })) {
      const key = keyOf(id);
      if (key?.projectKey !== projectKey) continue;
      const own = branch === "main" ? head : await this.#sp.session(id, { branch }).head();
      if (own) yield { key, head: own };
    }
  }
}

/** The caller may change its objects before they are saved. */
function copyEntries(entries: TranscriptEntry[]): TranscriptEntry[] {
  try {
    return structuredClone(entries);
  } catch (cause) {
    throw invalidArgument("An entry has a value that cannot be stored. Entries are JSON.", cause);
  }
}
