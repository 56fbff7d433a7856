/** The transcripts of one session and of its subagents, which are one session of the store. */
import { type CheckpointInfo, type Savepoint, SavepointError, type Session } from "../../index.js";
import { retryWrite } from "../shared/index.js";
import { pathOf, sessionIdOf } from "./keys.js";
import { type Outline, outlineIn, type Summaries } from "./summaries.js";
import type { SessionKey, TranscriptEntry, TranscriptState } from "./types.js";

/** What all transcripts of a store share. */
export interface TranscriptContext {
  readonly sp: Savepoint;
  readonly branch: string;
  readonly summaries: Summaries;
  agentOf(projectKey: string): string;
  /** A time in milliseconds that is later than this one, and later than all that it has returned. */
  nextTime(after: number | undefined): number;
}

/** What an append needs to know of the head that it builds on. */
interface Head {
  readonly outline: Outline;
  /** The uuids of the entries, by the path of their transcript. A missing path was never written. */
  readonly uuids: Map<string, Set<string>>;
  /** Whether the branch has a checkpoint. */
  readonly exists: boolean;
}

/**
 * One session of the SDK, as this process uses it. Its writes run one after another. Other processes may write too: every write
 * checks that the head is the one that it was prepared for.
 */
export class Transcript {
  readonly #context: TranscriptContext;
  readonly #key: SessionKey;
  #session: Session<TranscriptState>;
  #head: Head | undefined;
  /** The last state that was loaded, until the garbage collector frees it. */
  #loaded: { readonly id: string; readonly state: WeakRef<TranscriptState> } | undefined;
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  constructor(context: TranscriptContext, { projectKey, sessionId }: SessionKey) {
    this.#context = context;
    this.#key = { projectKey, sessionId };
    this.#session = this.session();
  }

  /** Whether no write is in progress. */
  get isIdle(): boolean {
    return this.#waiting === 0;
  }

  /** A new handle on the session. */
  session(): Session<TranscriptState> {
    const { sp, branch } = this.#context;
    const agent = this.#context.agentOf(this.#key.projectKey);
    return sp.session<TranscriptState>(sessionIdOf(this.#key), { agent, branch });
  }

  /** The entries of a transcript, as copies; `null` if it was never written. */
  async load({ subpath }: SessionKey): Promise<TranscriptEntry[] | null> {
    const state = await this.state();
    const entries = subpath === undefined ? state?.messages : own(state?.subagents, subpath);
    return entries ? structuredClone([...entries]) : null;
  }

  /** The subpaths of the transcripts of subagents. */
  async subpaths(): Promise<string[]> {
    return Object.keys((await this.state())?.subagents ?? {});
  }

  /** The newest state; `undefined` if there is none. Not to be changed. */
  async state(): Promise<TranscriptState | undefined> {
    // A handle of its own: a read must not move the head that an append builds on.
    const session = this.session();
    const head = await session.head();
    if (!head) return undefined;
    const loaded = this.#loaded?.id === head.id ? this.#loaded.state.deref() : undefined;
    if (loaded) return loaded;
    const latest = await session.latest();
    if (!latest) return undefined;
    const state = parseState(session.id, latest.state);
    this.#loaded = { id: latest.id, state: new WeakRef(state) };
    return state;
  }

  /** What the head has of the session, from its metadata or else from the transcript. */
  async outline(head: CheckpointInfo | undefined): Promise<Outline> {
    const outline = head && outlineIn(head.metadata);
    if (outline) return outline;
    const state = await this.state();
    return head && state?.messages ? { mtime: Math.floor(head.createdAt) } : {};
  }

  /** Appends entries to a transcript. An entry whose uuid is already in the transcript is skipped. */
  append(key: SessionKey, entries: readonly TranscriptEntry[]): Promise<void> {
    return this.#write(async () => {
      const path = pathOf(key);
      let head = this.#head;
      // Another process may have deleted the entries that this one knows, so only the stored head shows that nothing is new.
      if (!head || withoutKnown(entries, head.uuids.get(path)).length === 0) head = await this.#readHead();
      const known = head.uuids.get(path);
      const fresh = withoutKnown(entries, known);
      this.#head = head;
      if (fresh.length === 0 && known) return;
      const outline = key.subpath === undefined ? await this.#extendOutline(head, fresh) : head.outline;
      await this.#save(key, head, fresh, outline);
      const uuids = new Set(known);
      for (const { uuid } of fresh) if (uuid !== undefined) uuids.add(uuid);
      this.#head = { outline, uuids: head.uuids.set(path, uuids), exists: true };
    });
  }

  /** Removes the transcript of a subagent. */
  remove(subpath: string): Promise<void> {
    return this.#write(async () => {
      const head = (this.#head = await this.#readHead());
      const path = pathOf({ ...this.#key, subpath });
      if (!head.uuids.has(path)) return;
      const change = (state: Readonly<TranscriptState> | undefined): TranscriptState => {
        const { [subpath]: _removed, ...subagents } = state?.subagents ?? {};
        return { ...state, subagents };
      };
      await this.#session.update(change, { metadata: { claude: head.outline } });
      head.uuids.delete(path);
    });
  }

  /** Deletes the session with all its transcripts. */
  delete(): Promise<void> {
    return this.#write(async () => {
      await this.#context.sp.sessions.delete(this.#session.id);
      this.#forget();
    });
  }

  async #save(key: SessionKey, head: Head, fresh: readonly TranscriptEntry[], outline: Outline): Promise<void> {
    const options = { metadata: { claude: outline } };
    const { subpath } = key;
    if (!head.exists) {
      const state = subpath === undefined ? { messages: fresh, subagents: {} } : { subagents: { [subpath]: fresh } };
      // Only this lets a save create a branch other than `main`.
      const root = this.#context.branch === "main" ? {} : { parent: null };
      await this.#session.save(state, { ...options, ...root });
    } else if (head.uuids.has(pathOf(key))) {
      await this.#session.append(pathOf(key), fresh, options);
    } else {
      const add = (state: Readonly<TranscriptState> | undefined): TranscriptState =>
        subpath === undefined
          ? { subagents: {}, ...state, messages: fresh }
          : { ...state, subagents: { ...state?.subagents, [subpath]: fresh } };
      await this.#session.update(add, options);
    }
  }

  /** The outline after more entries of the session's own transcript. */
  async #extendOutline({ outline, uuids }: Head, fresh: readonly TranscriptEntry[]): Promise<Outline> {
    const mtime = this.#context.nextTime(outline.mtime);
    // Where the SDK was not installed, earlier entries are not in the summary yet.
    const isBehind = outline.summary === undefined && uuids.has("/messages");
    const before = isBehind ? ((await this.state())?.messages ?? []) : [];
    const summary = await this.#context.summaries.extend(this.#key, outline.summary, [...before, ...fresh], mtime);
    return { mtime, ...(summary && { summary }) };
  }

  async #readHead(): Promise<Head> {
    const latest = await this.#session.latest();
    const state = latest && parseState(this.#session.id, latest.state);
    const uuids = new Map<string, Set<string>>();
    if (state?.messages) uuids.set(pathOf(this.#key), uuidsOf(state.messages));
    for (const [subpath, entries] of Object.entries(state?.subagents ?? {}))
      uuids.set(pathOf({ ...this.#key, subpath }), uuidsOf(entries));
    return { outline: latest ? await this.outline(latest) : {}, uuids, exists: latest !== undefined };
  }

  /** Runs a write after all earlier ones, again if another process has written meanwhile. */
  #write(work: () => Promise<void>): Promise<void> {
    this.#waiting++;
    const result = this.#last.then(() => retryWrite(work, () => this.#forget())).finally(() => this.#waiting--);
    // The caller handles a failure; the next write only waits.
    this.#last = result.catch(() => {});
    return result;
  }

  /** The next write reads the head, with a handle that accepts a session that was deleted and created again. */
  #forget(): void {
    this.#head = undefined;
    this.#session = this.session();
  }
}

/** The entries that a transcript does not have yet. */
function withoutKnown(entries: readonly TranscriptEntry[], known: ReadonlySet<string> | undefined): TranscriptEntry[] {
  const added = new Set<string>();
  return entries.filter(({ uuid }) => {
    if (uuid === undefined) return true;
    if (known?.has(uuid) || added.has(uuid)) return false;
    added.add(uuid);
    return true;
  });
}

function uuidsOf(entries: readonly TranscriptEntry[]): Set<string> {
  return new Set(entries.flatMap(({ uuid }) => uuid ?? []));
}

/** The value of an own property. */
function own<Value>(record: Readonly<Record<string, Value>> | undefined, name: string): Value | undefined {
  return record && Object.hasOwn(record, name) ? record[name] : undefined;
}

/** A state that this store has saved. Another program may have saved anything. */
function parseState(session: string, state: unknown): TranscriptState {
  const { messages, subagents } = (state ?? {}) as Readonly<Record<string, unknown>>;
  const transcripts = typeof subagents === "object" && subagents !== null ? Object.values(subagents) : [undefined];
  if ([messages ?? [], ...transcripts].every(isTranscript)) return state as TranscriptState;
  throw new SavepointError(
    "INVALID_STATE",
    `The state of session ${JSON.stringify(session)} is not a transcript of the Claude Agent SDK: another program has saved it. Return to an earlier checkpoint with session.rewind(), or delete the session.`,
  );
}

function isTranscript(entries: unknown): boolean {
  return Array.isArray(entries) && entries.every((entry) => typeof entry === "object" && entry !== null);
}
