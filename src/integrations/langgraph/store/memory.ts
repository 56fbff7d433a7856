/** The items of one namespace, which are one session of the store. */
import { isSavepointError, type Savepoint, SavepointError, type Session } from "../../../index.js";
import { retryWrite } from "../../shared/index.js";
import { applyChanges, findItem, indexOf, type ItemChange, type PageIndex } from "./changes.js";
import { type NamespaceState, type Outline, outlineOf, parseOutline, parseState, type StoredItem } from "./items.js";
import type { Namespace } from "./namespaces.js";
import { Turn } from "./turn.js";
import type { TurnQueue } from "./turn-queue.js";

/** What all namespaces of a store share. */
export interface MemoryContext {
  readonly sp: Savepoint;
  readonly agent: string;
  readonly turns: TurnQueue;
  now(): number;
}

/** The head of a session, as this process knows it, with the handle that has read or saved it. */
interface Head {
  readonly session: Session<NamespaceState>;
  /** `undefined` if the session does not exist. */
  readonly id: string | undefined;
  readonly state: NamespaceState | undefined;
  /** Where the items of the state are. */
  readonly index: PageIndex;
  readonly bytes: number;
  /** When the first item expires. */
  readonly firstExpiry: number;
  /** Whether newer checkpoints are damaged. */
  readonly isBehind: boolean;
}

/** Changes that are saved together, in one checkpoint. */
interface Request {
  /** The changes, once their texts are embedded. */
  readonly changes: Promise<readonly ItemChange[]>;
  resolve(): void;
  reject(error: unknown): void;
}

/**
 * One namespace, as this process uses it. Changes are saved in the order of the calls; those that wait are saved together. Other
 * processes may write too: every save checks that the head is the one that it was prepared for.
 */
export class Memory {
  readonly id: string;
  readonly namespace: Namespace;
  readonly #context: MemoryContext;
  #head: Head | undefined;
  #waiting: Request[] = [];
  #saving: Promise<void> | undefined;
  readonly #turn: Turn;

  constructor(context: MemoryContext, id: string, namespace: Namespace) {
    this.#context = context;
    this.id = id;
    this.namespace = namespace;
    this.#turn = new Turn(context.turns, id);
  }

  /** Whether nothing is being saved. */
  get isIdle(): boolean {
    return this.#saving === undefined;
  }

  /** The size of the state that is kept. */
  get bytes(): number {
    return this.#head?.bytes ?? 0;
  }

  /** A new handle on the session. */
  session(): Session<NamespaceState> {
    return this.#context.sp.session<NamespaceState>(this.id, { agent: this.#context.agent });
  }

  /** The newest item under a key; also one that has expired. Not to be changed. */
  async item(key: string): Promise<StoredItem | undefined> {
    const info = await this.session().head();
    const head = info && (await this.#headAt(info.id));
    return head?.state && findItem(head.state, head.index, key);
  }

  /** The newest state, which is read only if the head is not the one that this process knows. Not to be changed. */
  async stateAt(headId: string): Promise<NamespaceState | undefined> {
    return (await this.#headAt(headId)).state;
  }

  /** The outline of the newest state, from the metadata of the head or else from the state. */
  async outline(head: { readonly id: string; readonly metadata: Readonly<Record<string, unknown>> }): Promise<Outline> {
    const outline = parseOutline(head.metadata);
    if (outline) return outline;
    const state = await this.stateAt(head.id);
    return state ? outlineOf(state) : { createdAt: 0, items: 0 };
  }

  /** Saves changes after all earlier ones, in one commit. They are not started before `changes` resolves. */
  change(changes: Promise<readonly ItemChange[]>): Promise<void> {
    // A failure is handled when these changes are saved.
    changes.catch(() => {});
    return new Promise((resolve, reject) => {
      this.#waiting.push({ changes, resolve, reject });
      this.#saving ??= this.#saveAll();
    });
  }

  async #saveAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const requests = this.#waiting;
      this.#waiting = [];
      const ready: { request: Request; changes: readonly ItemChange[] }[] = [];
      for (const request of requests) {
        await request.changes.then(
          (changes) => ready.push({ request, changes }),
          (error: unknown) => request.reject(error),
        );
      }
      await this.#saveTogether(ready);
    }
    // In the same turn as the check above: a change that is requested from now on starts the next loop.
    this.#saving = undefined;
  }

  /** Saves requests in one checkpoint; one by one if that fails because of a value. */
  async #saveTogether(ready: readonly { request: Request; changes: readonly ItemChange[] }[]): Promise<void> {
    try {
      await this.#save(ready.flatMap(({ changes }) => changes));
      for (const { request } of ready) request.resolve();
    } catch (error) {
      if (ready.length === 1 || !isSavepointError(error, "INVALID_STATE")) {
        for (const { request } of ready) request.reject(error);
        return;
      }
      for (const each of ready) await this.#saveTogether([each]);
    }
  }

  /** Saves changes, again if another process has written meanwhile. */
  async #save(changes: readonly ItemChange[]): Promise<void> {
    try {
      await retryWrite(
        () => this.#turn.save(() => this.#saveOnce(changes), this.#head === undefined),
        () => (this.#head = undefined),
      );
    } finally {
      this.#turn.pause();
    }
  }

  async #saveOnce(changes: readonly ItemChange[]): Promise<void> {
    const now = this.#context.now();
    const { namespace } = this;
    const apply = ({ state, index, firstExpiry }: Head): ReturnType<typeof applyChanges> =>
      applyChanges(namespace, state, index, changes, { now, mayExpire: firstExpiry <= now });
    let head = (this.#head ??= await this.#readHead());
    let after = apply(head);
    if (!after) {
      // Another process may have changed the items that this one knows, so only the stored head shows that nothing changes.
      head = this.#head = await this.#readHead();
      after = apply(head);
    }
    if (!after) return;
    let saved = after;
    const update = (state: Readonly<NamespaceState> | undefined): NamespaceState => {
      if ((state === undefined) !== (head.state === undefined)) throw this.#isMoved();
      // The same changes of an equal state. What the new state shares with the one that the session has is not compared.
      if (state !== head.state) saved = apply({ ...head, state }) ?? saved;
      return saved.state;
    };
    const outline = outlineOf(after.state);
    const options = { metadata: { memory: outline } };
    // A damaged head cannot be updated, but a state can be saved after it.
    const info = await (head.isBehind ? head.session.save(after.state, options) : head.session.update(update, options));
    const firstExpiry = outline.expires?.first ?? Number.POSITIVE_INFINITY;
    const index = saved.updateIndex(head.index);
    this.#head = {
      ...head,
      id: info.id,
      state: saved.state,
      index,
      bytes: info.stateBytes,
      firstExpiry,
      isBehind: false,
    };
  }

  #isMoved(): SavepointError {
    return new SavepointError("CONFLICT", `Another process has created or deleted session ${JSON.stringify(this.id)}.`);
  }

  async #headAt(id: string): Promise<Head> {
    const known = this.#head;
    return known?.id === id ? known : (this.#head = await this.#readHead());
  }

  async #readHead(): Promise<Head> {
    const session = this.session();
    const latest = await session.latest();
    const state = latest && parseState(this.id, this.namespace, latest.state);
    const index = indexOf(state);
    return {
      session,
      id: latest?.id,
      state,
      index,
      bytes: latest?.stateBytes ?? 0,
      firstExpiry: (state && outlineOf(state).expires?.first) ?? Number.POSITIVE_INFINITY,
      isBehind: (latest?.skipped.length ?? 0) > 0,
    };
  }
}
