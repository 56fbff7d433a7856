/** The events of a worker and its listeners. */
import type { RunErrorEvent, RunEvent, RunEventOf, RunEventType } from "../../events/index.js";

/** A session was quarantined, because one process after another has crashed in the same step of it. */
export interface QuarantineEvent {
  readonly type: "quarantined";
  readonly sessionId: string;
  readonly branch: string;
  readonly reason: string;
}

/** A run of the worker has ended because its step has thrown. Without a listener here or on `sp`, it is printed on stderr. */
export interface WorkerRunErrorEvent extends RunErrorEvent {
  readonly type: "runError";
}

/** The worker could not search for work, or could not start some. It continues to try. */
export interface WorkerFailureEvent {
  readonly type: "failure";
  readonly message: string;
  readonly error: unknown;
}

/** An event of a worker: an event of one of its runs, an error that has ended one, a quarantine, or a failure. */
export type WorkerEvent = RunEvent | WorkerRunErrorEvent | QuarantineEvent | WorkerFailureEvent;
export type WorkerEventType = WorkerEvent["type"];
export type WorkerEventOf<Type extends WorkerEventType> = Type extends RunEventType
  ? RunEventOf<Type>
  : Extract<WorkerEvent, { readonly type: Type }>;

export class WorkerListeners {
  readonly #byType = new Map<WorkerEventType, Set<(event: WorkerEvent) => void>>();

  /** Adds a listener. Returns the function that removes it. */
  add<Type extends WorkerEventType>(type: Type, listener: (event: WorkerEventOf<Type>) => void): () => void {
    const listeners = this.#byType.get(type) ?? new Set();
    this.#byType.set(type, listeners);
    listeners.add(listener as (event: WorkerEvent) => void);
    return () => listeners.delete(listener as (event: WorkerEvent) => void);
  }

  has(type: WorkerEventType): boolean {
    return (this.#byType.get(type)?.size ?? 0) > 0;
  }

  /** Calls all listeners. An error in a listener is logged and affects neither the run nor the worker. */
  emit(event: WorkerEvent): void {
    for (const listener of this.#byType.get(event.type) ?? []) {
      try {
        listener(event);
      } catch (error) {
        console.error(`savepoint: a listener for "${event.type}" of a worker failed:`, error);
      }
    }
  }
}
