/**
 * The queue of the processes that take turns to write to a namespace. Saves are correct without turns, because each save checks the head.
 * But of two processes that save without a pause, one could conflict every time.
 *
 * An entry of the queue is an annotation, so that no entry conflicts with another one or with a save. The annotations belong to a session
 * that exists only while the queue has entries. If the queue fails, no save fails: the process saves without a turn.
 */
import { createHash, randomUUID } from "node:crypto";
import type { Savepoint, Session } from "../../../index.js";
import { isCount, isFields } from "./items.js";

/** A process that waits for its turn, or has it. */
export interface QueueEntry {
  readonly namespace: string;
  readonly writer: string;
  /** Turns are ordered by ticket. */
  readonly ticket: number;
  /** How long the process needs to read the state and to save it, in milliseconds. */
  readonly needs: number;
  /** The checkpoint that has the annotation. */
  readonly seq: number;
}

/** The minimum time between two reads of the queue by a process that saves without a pause, in milliseconds. */
const READ_INTERVAL = 250;
/** The saves between two reads take at least this many times as long as one read, so reads take at most 2 % of the time. */
const SAVES_PER_READ = 50;
/** The maximum time of one attempt that an entry can contain, in milliseconds. */
const MAX_NEEDS = 5_000;
/** An upper bound of the `seq` of the checkpoints of the session. */
const LAST_SEQ = 1_000;
/** Identifies the session of the queue, and explains it to people. */
const DESCRIPTION = "The processes that take turns to write to a namespace of the long-term memory.";
/** The maximum number of attempts to write an entry while other processes create and delete the session. */
const MAX_ATTEMPTS = 5;

export class TurnQueue {
  readonly #sp: Savepoint;
  readonly #agent: string;
  readonly #id: string;
  /** The name of this process in its entries. */
  readonly writer = randomUUID();
  #entries: readonly QueueEntry[] = [];
  #lastRead = performance.now();
  /** How long the last read took. */
  #readTime = 1;
  /** How long the saves since the last read took. */
  #saveTime = 0;

  /** @param id the session of the queue */
  constructor(sp: Savepoint, agent: string, id: string) {
    this.#sp = sp;
    this.#agent = agent;
    this.#id = id;
  }

  /** How long a read takes, in milliseconds. */
  get readTime(): number {
    return this.#readTime;
  }

  /** Notes how long a save took, in milliseconds. */
  noteSave(time: number): void {
    this.#saveTime += time;
  }

  /** Whether a process that saves without conflicts should read the queue. */
  get isReadDue(): boolean {
    return this.#saveTime >= SAVES_PER_READ * this.#readTime && performance.now() - this.#lastRead >= READ_INTERVAL;
  }

  /** The entries of a namespace as of the last read, in the order of their turns. */
  entriesOf(namespace: string): QueueEntry[] {
    return this.#entries
      .filter((entry) => entry.namespace === namespace)
      .sort((a, b) => a.ticket - b.ticket || (a.writer < b.writer ? -1 : 1));
  }

  async read(): Promise<void> {
    const began = performance.now();
    try {
      this.#entries = parseEntries(await this.#session().annotations(0, LAST_SEQ));
    } catch {
      this.#entries = [];
    }
    this.#lastRead = performance.now();
    this.#readTime = this.#lastRead - began;
    this.#saveTime = 0;
  }

  /** Appends this process to the queue of a namespace, or moves it to the end of the queue. Returns whether that succeeded. */
  async join(namespace: string, needs: number): Promise<boolean> {
    const entries = this.entriesOf(namespace);
    const ticket = Math.min((entries.at(-1)?.ticket ?? 0) + 1, Number.MAX_SAFE_INTEGER);
    const own = entries.find(({ writer }) => writer === this.writer);
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
      try {
        // A new handle accepts a session that was deleted and created again.
        const session = this.#session();
        const seq = (attempt === 1 ? own?.seq : undefined) ?? (await this.#checkpointOf(session));
        const entry = { ticket, needs: Math.min(Math.ceil(needs), MAX_NEEDS) };
        await session.annotate({ seq }, `${namespace}/${this.writer}`, () => entry);
        return true;
      } catch {
        // Another process has created or deleted the session.
      }
    }
    return false;
  }

  /** Removes an entry. Deletes the session with the last entry. */
  async remove(entry: QueueEntry): Promise<void> {
    const { seq, namespace, writer, ticket } = entry;
    const isLast = this.#entries.every((each) => each === entry);
    this.#entries = this.#entries.filter((each) => each !== entry);
    try {
      // A process that appends its entry at the same time finds later that the entry is missing, and appends it again.
      if (isLast && (await this.#isOwn())) await this.#sp.sessions.delete(this.#id);
      else {
        const isSame = (before: unknown): boolean => isFields(before) && before["ticket"] === ticket;
        await this.#session().annotate({ seq }, `${namespace}/${writer}`, (before) =>
          isSame(before) ? undefined : before,
        );
      }
    } catch {
      // Another process has deleted the session. If the entry remains, a waiting process removes it when its time has passed.
    }
  }

  #session(): Session {
    return this.#sp.session(this.#id, { agent: this.#agent });
  }

  async #checkpointOf(session: Session): Promise<number> {
    const head = await session.head();
    return (head ?? (await session.save({}, { status: "completed", description: DESCRIPTION }))).seq;
  }

  /** Whether the session was created by the queue, and not by the application with the same id. */
  async #isOwn(): Promise<boolean> {
    return (await this.#session().head())?.description === DESCRIPTION;
  }
}

/** The name of a namespace in the queue. It does not contain the labels, because names of annotations are not encrypted. */
export function queueNameOf(sessionId: string): string {
  return createHash("sha256").update(sessionId).digest("hex").slice(0, 32);
}

/** Parses entries, and skips the annotations of other programs, which can have any content. */
function parseEntries(annotations: ReadonlyMap<number, ReadonlyMap<string, unknown>>): QueueEntry[] {
  const entries: QueueEntry[] = [];
  for (const [seq, values] of annotations) {
    for (const [name, value] of values) {
      const [namespace, writer] = name.split("/");
      if (namespace === undefined || writer === undefined || !isFields(value)) continue;
      const { ticket, needs } = value;
      if (isCount(ticket) && isCount(needs) && needs <= MAX_NEEDS)
        entries.push({ namespace, writer, ticket, needs, seq });
    }
  }
  return entries;
}
