/** What clients subscribe to. */
import type { LiveEventName } from "../api.js";
import type { Pace } from "./poller.js";

/** Sends an event to the clients of a topic. */
export type Emit = (data: object) => void;

/** A part of the store that clients follow. */
export interface Topic {
  readonly name: string;
  readonly event: LiveEventName;
  readonly pace: Pace;
  /** Reads the topic, and emits its changes; the first time, its state. Resolves with whether there were any changes. */
  poll(emit: Emit): Promise<boolean>;
  /** The event for a client that connects; `undefined` before the first poll. */
  current(): object | undefined;
  /** Called once, for a topic that has changes between polls. */
  onChange?(emit: Emit): void;
  close?(): void;
}
