/**
 * The processes that take turns to write to a namespace, in the order of their turns. A save needs no turn: it checks the head itself. But of two
 * processes that save without a pause, one may always be too late.
 *
 * An entry of the queue is an annotation, so that no entry conflicts with another one or with a save. The annotations belong to a session
 * that exists only while the queue has entries. A failure of the queue fails no save: the process then saves without a turn.
 */
import { createHash, randomUUID } from "node:crypto";
import type { Savepoint, Session } from "../../../index.js";
import { isCount, isFields } from "./items.js";

/** A process that waits for its turn, or has it. */
export interface QueueEntry {
  readonly namespace: string;
  readonly writer: string;
  /** The turns are in the order of the tickets. */
  readonly ticket: number;
  /** How long the process needs to read the state and to save it, in milliseconds. */
  readonly needs: number;
  /** The checkpoint that has the annotation. */
  readonly seq: number;
}

/** How often a process that saves without a pause reads the queue, in milliseconds. */
const READ_INTERVAL = 250;
/** How much longer the saves between two reads of the queue took than one read, at least: no more than 2 % of the time are reads. */
const SAVES_PER_READ = 50;
/** The longest time for one attempt to save that other processes provide for, in milliseconds. */
const MAX_NEEDS = 5_000;
/** More than the number of checkpoints that the session ever has. */
const LAST_SEQ = 1_000;
/** Distinguishes the session from others, and explains it to people. */
const DESCRIPTION = "The processes that take turns to write to a namespace of the long-term memory.";
/** How often an entry is written again if another process deletes the session meanwhile. */
const MAX_ATTEMPTS = 5;

export class TurnQueue {
  readonly #sp: Savepoint;
  readonly #agent: string;
  readonly #id: string;
  /** The entries of this process have this name. */
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

  /** Notes that a save took so long. */
  noteSave(time: number): void {
    this.#saveTime += time;
  }

  /** Whether a process that saves without conflicts should read the queue. */
  get isReadDue(): boolean {
    return this.#saveTime >= SAVES_PER_READ * this.#readTime && performance.now() - this.#lastRead >= READ_INTERVAL;
  }

  /** The entries of a namespace when the queue was last read, in the order of their turns. */
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

  /** Appends this process to the queue of a namespace, or moves it to its end. Returns whether it is in the queue. */
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

  /** Removes an entry, and the session with the last one. */
  async remove(entry: QueueEntry): Promise<void> {
    const { seq, namespace, writer, ticket } = entry;
    const isLast = this.#entries.every((each) => each === entry);
    this.#entries = this.#entries.filter((each) => each !== entry);
    try {
      // A process that appends its entry just now notices that it is gone, and appends it again.
      if (isLast && (await this.#isOwn())) await this.#sp.sessions.delete(this.#id);
      else {
        const isSame = (before: unknown): boolean => isFields(before) && before["ticket"] === ticket;
        await this.#session().annotate({ seq }, `${namespace}/${writer}`, (before) =>
          isSame(before) ? undefined : before,
        );
      }
    } catch {
      // Another process has deleted the session. An entry that remains is removed when its time has passed.
    }
  }

  #session(): Session {
    return this.#sp.session(this.#id, { agent: this.#agent });
  }

  async #checkpointOf(session: Session): Promise<number> {
    const head = await session.head();
    return (head ?? (await session.save({}, { status: "completed", description: DESCRIPTION }))).seq;
  }

  /** Whether the session is that of the queue, and not one of the application that has the same id. */
  async #isOwn(): Promise<boolean> {
    return (await this.#session().head())?.description === DESCRIPTION;
  }
}

/** The name of a namespace in the queue. Entries remain readable in an encrypted store, so it does not contain the labels. */
export function queueNameOf(sessionId: string): string {
  return createHash("sha256").update(sessionId).digest("hex").slice(0, 32);
}

/** Another program may have annotated the session with anything. */
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
