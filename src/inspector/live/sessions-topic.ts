/** The list of sessions, as a topic. */
import type { LiveEvents } from "../api.js";
import type { SessionIndex } from "../data/session-index.js";
import type { SessionLists } from "../data/session-list.js";
import type { Emit, Topic } from "./topic.js";

/** With more changes at once, clients load the list again. */
const MAX_CHANGES = 200;
/** A poll waits for at most this long for a refresh of the index, in milliseconds. */
const MAX_WAIT = 60_000;

export class SessionsTopic implements Topic {
  readonly name = "sessions";
  readonly event = "sessions";
  readonly pace = { fast: 200, slow: 1500 };
  readonly #index: SessionIndex;
  readonly #lists: SessionLists;
  #unlisten: (() => void) | undefined;
  #hasPolled = false;
  #changes = 0;

  constructor(index: SessionIndex, lists: SessionLists) {
    this.#index = index;
    this.#lists = lists;
  }

  async poll(emit: Emit): Promise<boolean> {
    const before = this.#changes;
    await this.#index.update(MAX_WAIT);
    if (!this.#hasPolled) {
      this.#hasPolled = true;
      emit(this.#toEvent([], []));
    }
    return this.#changes > before;
  }

  current(): LiveEvents["sessions"] | undefined {
    return this.#hasPolled ? this.#toEvent([], []) : undefined;
  }

  onChange(emit: Emit): void {
    this.#unlisten = this.#index.onChange(({ rows, removed }) => {
      this.#changes++;
      const isMany = rows.length + removed.length > MAX_CHANGES;
      emit(isMany ? this.#toEvent([], []) : this.#toEvent(rows, removed));
    });
  }

  close(): void {
    this.#unlisten?.();
  }

  #toEvent(rows: LiveEvents["sessions"]["rows"], removed: LiveEvents["sessions"]["removed"]): LiveEvents["sessions"] {
    const { version, size, isIndexing } = this.#index;
    return { version, rows, removed, total: size, asking: this.#lists.asking, isIndexing };
  }
}
