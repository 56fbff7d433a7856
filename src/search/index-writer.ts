/** Writes to the search index, many messages in one transaction. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { SavepointError } from "../errors.js";
import type { Mark, SourceUpdate, TextIndex } from "../store/index.js";
import type { Events } from "../events/index.js";

/** The most messages and characters of one transaction: other writers have to wait for it. */
export const MAX_DOCUMENTS = 400;
const MAX_LENGTH = 200_000;
/** An update with this many messages ends with an optimisation of the index. */
const OPTIMISE_FROM = 5000;
/** Transactions in a row that may fail because another process has written the same sources. */
const MAX_FAILURES = 100;

/** Collects changes of the index and writes them in transactions of limited size. */
export class IndexWriter {
  readonly #texts: TextIndex;
  readonly #events: Events;
  #sources: SourceUpdate[] = [];
  #marks: Mark[] = [];
  #documents = 0;
  #length = 0;
  #failures = 0;
  #messages = 0;

  constructor(texts: TextIndex, events: Events) {
    this.#texts = texts;
    this.#events = events;
  }

  /** Adds the texts of a source to the next transaction. */
  add(update: SourceUpdate): void {
    this.#sources.push(update);
    this.#documents += update.texts.length;
    for (const text of update.texts) this.#length += text.length;
  }

  /** Adds marks: these records are indexed by what was added before. Writes the transaction if it is large enough. */
  async note(marks: readonly Mark[]): Promise<void> {
    for (const mark of marks) this.#marks.push(mark);
    if (this.#documents >= MAX_DOCUMENTS || this.#length >= MAX_LENGTH) await this.flush();
  }

  /** Writes what was added; `false` if another process has written the same sources, then they have to be read again. */
  async flush(): Promise<boolean> {
    const [sources, marks, documents] = [this.#sources, this.#marks, this.#documents];
    this.#sources = [];
    this.#marks = [];
    this.#documents = this.#length = 0;
    if (sources.length === 0 && marks.length === 0) return true;
    const written = await this.#texts.update({ sources, marks });
    // A local store answers without a turn of the event loop, and there may be many transactions.
    await nextTurn();
    if (!written) {
      if (++this.#failures === MAX_FAILURES) throw indexBusy();
      return false;
    }
    this.#failures = 0;
    this.#messages += documents;
    if (documents > 0) this.#events.emit("indexing", { messages: this.#messages, done: false });
    return true;
  }

  /** Ends an update after the last transaction: optimises the index if much was written, and emits `indexing`. */
  async finish(): Promise<void> {
    if (this.#messages >= OPTIMISE_FROM) await this.#texts.tidy?.();
    if (this.#messages > 0) this.#events.emit("indexing", { messages: this.#messages, done: true });
  }
}

function indexBusy(): SavepointError<"BUSY"> {
  return new SavepointError(
    "BUSY",
    `The search index could not be updated: other processes changed it during each of ${MAX_FAILURES} attempts. Search again.`,
  );
}
