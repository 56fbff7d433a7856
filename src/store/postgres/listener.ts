/**
 * Hears what commits of any process call out. It has a connection to itself, because what is listened to belongs to one;
 * when that is cut, it makes another.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Connection } from "./connection.js";
import type { PostgresClient } from "./driver.js";

/** Between attempts to connect again, in milliseconds. */
const PAUSE = 500;

export class Listener {
  readonly #connection: Connection;
  readonly #channel: string;
  readonly #listeners = new Set<(name: string) => void>();
  #client: PostgresClient | undefined;
  /** Lets go of it, once. */
  #release: () => void = () => {};
  #connecting: Promise<void> | undefined;
  #closed = false;

  constructor(connection: Connection, channel: string) {
    this.#connection = connection;
    this.#channel = channel;
  }

  async add(listener: (name: string) => void): Promise<() => Promise<void>> {
    // Nobody is told anything then, and whoever listens looks from time to time.
    if (!this.#connection.hasSpareConnection) return async () => {};
    this.#listeners.add(listener);
    await (this.#connecting ??= this.#connect());
    return async () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) await this.#disconnect();
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#listeners.clear();
    await this.#disconnect();
  }

  /** One attempt; where it fails, others follow, and nobody waits for them. */
  async #connect(): Promise<void> {
    try {
      await this.#listen();
    } catch {
      // Nothing is lost by it: who listens also looks from time to time, and is told of the failure by that.
      void this.#reconnect();
    }
  }

  async #listen(): Promise<void> {
    const client = await this.#connection.connect();
    let gone = false;
    const release = (): void => {
      if (gone) return;
      gone = true;
      client.release(true);
    };
    const lose = (): void => {
      release();
      if (this.#client !== client) return;
      this.#client = undefined;
      void this.#reconnect();
    };
    client.on("error", lose);
    client.on("end", lose);
    client.on("notification", ({ payload = "" }) => {
      for (const listener of this.#listeners) listener(payload);
    });
    try {
      await client.query(`LISTEN ${this.#channel}`);
    } catch (error) {
      lose();
      throw error;
    }
    // Its end may have come together with the answer.
    if (gone) throw new Error("The connection was cut.");
    if (this.#closed || this.#listeners.size === 0) return lose();
    this.#client = client;
    this.#release = release;
  }

  async #reconnect(): Promise<void> {
    while (!this.#closed && this.#listeners.size > 0) {
      await sleep(PAUSE, undefined, { ref: false });
      if (this.#client || this.#closed || this.#listeners.size === 0) return;
      try {
        await this.#listen();
        // What was called out meanwhile was not heard.
        for (const listener of this.#listeners) listener("");
        return;
      } catch {
        // The next attempt comes after the same pause.
      }
    }
  }

  async #disconnect(): Promise<void> {
    await this.#connecting;
    this.#connecting = undefined;
    // In this order: what ends on purpose is not connected again.
    const isConnected = this.#client !== undefined;
    this.#client = undefined;
    if (isConnected) this.#release();
  }
}
