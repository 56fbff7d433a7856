/** Writes what is to be found to the index, many messages at a time. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { SavepointError } from "../errors.js";
import type { Mark, SourceUpdate, TextIndex } from "../store/index.js";
import type { Events } from "../events/index.js";

/** Messages, and characters of them, that are written in one transaction: others have to wait for it. */
export const MAX_DOCUMENTS = 400;
const MAX_LENGTH = 200_000;
/** When so many messages were added at once, it is worth putting the index in order. */
const MANY = 5000;
/** Another process was faster each time; more often than that, something else is wrong. */
const MAX_FAILURES = 100;

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

  add(update: SourceUpdate): void {
    this.#sources.push(update);
    this.#documents += update.texts.length;
    for (const text of update.texts) this.#length += text.length;
  }

  /** Notes that these records have been looked at, with all that was added before. Writes it, if that is enough. */
  async note(marks: readonly Mark[]): Promise<void> {
    for (const mark of marks) this.#marks.push(mark);
    if (this.#documents >= MAX_DOCUMENTS || this.#length >= MAX_LENGTH) await this.flush();
  }

  /** Writes what was added. `false` where another process was faster: then it has to be looked at again. */
  async flush(): Promise<boolean> {
    const [sources, marks, documents] = [this.#sources, this.#marks, this.#documents];
    this.#sources = [];
    this.#marks = [];
    this.#documents = this.#length = 0;
    if (sources.length === 0 && marks.length === 0) return true;
    const written = await this.#texts.update({ sources, marks });
    // All of it may be done without a turn of the event loop, and there may be much of it.
    await nextTurn();
    if (!written) {
      if (++this.#failures === MAX_FAILURES) throw neverWritten();
      return false;
    }
    this.#failures = 0;
    this.#messages += documents;
    if (documents > 0) this.#events.emit("indexing", { messages: this.#messages, done: false });
    return true;
  }

  /** To be called when all is written: puts the index in order if that was much, and tells it. */
  async finish(): Promise<void> {
    if (this.#messages >= MANY) await this.#texts.tidy?.();
    if (this.#messages > 0) this.#events.emit("indexing", { messages: this.#messages, done: true });
  }
}

function neverWritten(): SavepointError<"BUSY"> {
  return new SavepointError(
    "BUSY",
    `The search index could not be brought up to date: other processes changed it each of ${MAX_FAILURES} times. Search again.`,
  );
}
