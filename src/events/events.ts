/** What Savepoint tells while it works. */
import type { BackgroundFailure } from "../store/index.js";
import type { LastShutdown } from "./open-process.js";
import type { RunEvent } from "./run-events.js";

/** Something stored cannot be read. */
export interface DamageEvent {
  /** The session that it belongs to; `undefined` where it is an agent or a conversation. */
  readonly sessionId: string | undefined;
  readonly agent?: string;
  readonly conversationId?: string;
  /** The checkpoint that was being read; `undefined` where the damage is in the session's own records. */
  readonly checkpointId: string | undefined;
  readonly seq: number | undefined;
  readonly reason: string;
}

/** Something failed while nobody waited for it. */
export type BackgroundFailureEvent = BackgroundFailure;

/** What was saved is made searchable. */
export interface IndexingEvent {
  /** Messages that were indexed so far. */
  readonly messages: number;
  readonly done: boolean;
}

/** The events, by name. */
export interface SavepointEvents {
  /** Something stored cannot be read. Whole data is still returned where there is some. */
  readonly damage: DamageEvent;
  /** Packing items, or keeping the store's files small, has failed; or a commit is damaged beyond knowing what it was. */
  readonly backgroundFailure: BackgroundFailureEvent;
  /** A search waits until what was saved since the last one is indexed: told as it goes on, and when it is done. */
  readonly indexing: IndexingEvent;
  /** The store was not closed by a process that is dead: told when it is opened. */
  readonly uncleanShutdown: LastShutdown;
  /** Something has happened in a run of this process. */
  readonly run: RunEvent;
}

/** Events that somebody must hear of: on the console, if nobody listens. */
const LOUD: ReadonlySet<EventName> = new Set<EventName>(["damage", "backgroundFailure"]);

export type EventName = keyof SavepointEvents;
export type Listener<Name extends EventName> = (event: SavepointEvents[Name]) => void;
/** Listeners given when a store is opened. */
export type Listeners = { readonly [Name in EventName]?: Listener<Name> };

export class Events {
  readonly #listeners = new Map<EventName, Set<Listener<EventName>>>();

  constructor(listeners: Listeners = {}) {
    for (const [name, listener] of Object.entries(listeners))
      if (listener) this.on(name as EventName, listener as Listener<EventName>);
  }

  /** Returns the function that takes the listener off again. */
  on<Name extends EventName>(name: Name, listener: Listener<Name>): () => void {
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners.add(listener as Listener<EventName>));
    return () => void listeners.delete(listener as Listener<EventName>);
  }

  /** Does anybody listen? Then it is worth saying what happens often. */
  has(name: EventName): boolean {
    return (this.#listeners.get(name)?.size ?? 0) > 0;
  }

  /** A listener that throws does not disturb the others, nor the work it was told about. */
  emit<Name extends EventName>(name: Name, event: SavepointEvents[Name]): void {
    const listeners = this.#listeners.get(name);
    if (!listeners?.size && LOUD.has(name)) console.warn(`savepoint: ${name}:`, event);
    for (const listener of listeners ?? []) {
      try {
        listener(event);
      } catch (error) {
        console.error(`savepoint: a listener for "${name}" failed:`, error);
      }
    }
  }
}
