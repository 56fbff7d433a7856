/**
 * Listens for the notifications of commits of all processes. It reserves a connection, because LISTEN belongs to one, and
 * reconnects when that connection is cut.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { PostgresConnection } from "./connection.js";
import type { PostgresClient } from "./driver.js";

/** The pause between attempts to reconnect, in milliseconds. */
const RECONNECT_PAUSE = 500;

export class NotificationListener {
  readonly #connection: PostgresConnection;
  readonly #channel: string;
  readonly #listeners = new Set<(name: string) => void>();
  #client: PostgresClient | undefined;
  /** Releases the connection. Has an effect once. */
  #release: () => void = () => {};
  #connecting: Promise<void> | undefined;
  #isClosed = false;

  constructor(connection: PostgresConnection, channel: string) {
    this.#connection = connection;
    this.#channel = channel;
  }

  async add(listener: (name: string) => void): Promise<() => Promise<void>> {
    // Without a spare connection there are no notifications; callers poll as well.
    if (!this.#connection.hasSpareConnection) return async () => {};
    this.#listeners.add(listener);
    await (this.#connecting ??= this.#connect());
    return async () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) await this.#disconnect();
    };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#listeners.clear();
    await this.#disconnect();
  }

  /** Makes one attempt to connect. If it fails, further attempts follow in the background. */
  async #connect(): Promise<void> {
    try {
      await this.#listen();
    } catch {
      // Nothing is lost: callers also poll, and get the error there.
      void this.#reconnect();
    }
  }

  async #listen(): Promise<void> {
    const client = await this.#connection.connect();
    let isReleased = false;
    const release = (): void => {
      if (isReleased) return;
      isReleased = true;
      client.release(true);
    };
    const disconnect = (): void => {
      release();
      if (this.#client !== client) return;
      this.#client = undefined;
      void this.#reconnect();
    };
    client.on("error", disconnect);
    client.on("end", disconnect);
    client.on("notification", ({ payload = "" }) => {
      for (const listener of this.#listeners) listener(payload);
    });
    try {
      await client.query(`LISTEN ${this.#channel}`);
    } catch (error) {
      disconnect();
      throw error;
    }
    // The connection may have ended together with the answer.
    if (isReleased) throw new Error("The connection was cut.");
    if (this.#isClosed || this.#listeners.size === 0) return disconnect();
    this.#client = client;
    this.#release = release;
  }

  async #reconnect(): Promise<void> {
    while (!this.#isClosed && this.#listeners.size > 0) {
      await sleep(RECONNECT_PAUSE, undefined, { ref: false });
      if (this.#client || this.#isClosed || this.#listeners.size === 0) return;
      try {
        await this.#listen();
        // Notifications were missed meanwhile: listeners have to check everything.
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
    // In this order, so that the end of the connection does not start a reconnect.
    const isConnected = this.#client !== undefined;
    this.#client = undefined;
    if (isConnected) this.#release();
  }
}
