/** The events of a Savepoint, and their emitter. */
import type { BackgroundFailure } from "../store/index.js";
import type { LastShutdown } from "./open-process.js";
import type { RunErrorEvent, RunEvent } from "./run-events.js";
import { printUnheard } from "./unheard.js";

/** Stored data cannot be read. */
export interface DamageEvent {
  /** The session that the data belongs to; `undefined` for an agent or a conversation. */
  readonly sessionId: string | undefined;
  readonly agent?: string;
  readonly conversationId?: string;
  /** The damaged checkpoint; `undefined` if the damage is in the session's own records. */
  readonly checkpointId: string | undefined;
  readonly seq: number | undefined;
  readonly reason: string;
}

/** Background work has failed. */
export type BackgroundFailureEvent = BackgroundFailure;

/** The progress of search indexing. */
export interface IndexingEvent {
  /** The number of messages indexed so far. */
  readonly messages: number;
  readonly done: boolean;
}

/** The payloads of all events, by name. */
export interface SavepointEvents {
  /** Stored data cannot be read. Intact data is still returned where it exists. */
  readonly damage: DamageEvent;
  /** Packing items or compacting the store's files has failed, or a commit is too damaged to identify. */
  readonly backgroundFailure: BackgroundFailureEvent;
  /** A search waits for the indexing of recent saves. Emitted repeatedly, and once when the indexing is done. */
  readonly indexing: IndexingEvent;
  /** A process ended without closing the store. Emitted when the store is opened. */
  readonly uncleanShutdown: LastShutdown;
  /** A run of this process has made progress. A retry that has no listener is printed on stderr. */
  readonly run: RunEvent;
  /** A run of this process has ended because its step has thrown. Printed on stderr, with the stack, if it has no listener. */
  readonly runError: RunErrorEvent;
}

export type EventName = keyof SavepointEvents;
export type Listener<Name extends EventName> = (event: SavepointEvents[Name]) => void;
/** Listeners that are passed to `Savepoint.open`. */
export type Listeners = { readonly [Name in EventName]?: Listener<Name> };

/** Options of `sp.on()`. */
export interface ListenOptions {
  /**
   * Whether the listener only observes: a failure is still printed if it has no other listener.
   * @default false
   */
  readonly observe?: boolean;
}

/** How a listener was added. */
interface Registration {
  /** The condition on the events that it gets. */
  readonly accepts: ((event: never) => boolean) | undefined;
  readonly isObserver: boolean;
}

/** The event emitter of one Savepoint. */
export class Events {
  readonly #listeners = new Map<EventName, Map<Listener<EventName>, Registration>>();

  constructor(listeners: Listeners = {}) {
    for (const [name, listener] of Object.entries(listeners))
      if (listener) this.on(name as EventName, listener as Listener<EventName>);
  }

  /** Adds a listener for all events, or for those that fulfil a condition. Returns the function that removes it. */
  on<Name extends EventName>(
    name: Name,
    listener: Listener<Name>,
    accepts?: (event: SavepointEvents[Name]) => boolean,
    { observe = false }: ListenOptions = {},
  ): () => void {
    const listeners = this.#listeners.get(name) ?? new Map<Listener<EventName>, Registration>();
    this.#listeners.set(name, listeners.set(listener as Listener<EventName>, { accepts, isObserver: observe }));
    return () => void listeners.delete(listener as Listener<EventName>);
  }

  /** Whether the event has listeners. If it has none, callers skip building the payload of frequent events. */
  has(name: EventName): boolean {
    return (this.#listeners.get(name)?.size ?? 0) > 0;
  }

  /**
   * Calls all listeners. An error in a listener is logged and affects neither the other listeners nor the caller. An event that
   * reports a failure is printed if it has no listener.
   *
   * @param isHeard whether something else has handled it, so that it need not be printed
   */
  emit<Name extends EventName>(name: Name, event: SavepointEvents[Name], isHeard = false): void {
    let hasListener = isHeard;
    for (const [listener, { accepts, isObserver }] of this.#listeners.get(name) ?? []) {
      if (accepts && !accepts(event as never)) continue;
      if (!isObserver) hasListener = true;
      try {
        listener(event);
      } catch (error) {
        console.error(`savepoint: a listener for "${name}" failed:`, error);
      }
    }
    if (!hasListener) printUnheard(name, event);
  }
}
