/** The part of a store that is the same everywhere: it is open until it is closed, once. */
import type { Store } from "../contract/index.js";
import { storeClosed } from "./errors.js";

/** The options of the methods of a store. */
export type ListOptions = Parameters<Store["list"]>[1];
export type RetainOptions = Parameters<Store["retain"]>[2];
export type ReserveOptions = Parameters<NonNullable<Store["reserve"]>>[1];

export abstract class CloseableStore {
  abstract readonly url: string;
  #closing: Promise<void> | undefined;

  close(): Promise<void> {
    return (this.#closing ??= this.release());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Waits for pending work and releases all resources. Called once. */
  protected abstract release(): Promise<void>;

  /** Whether the store is neither closed nor closing. */
  protected get isOpen(): boolean {
    return this.#closing === undefined;
  }

  /** Throws `CLOSED` if the store is closed or closing. */
  protected assertOpen(): void {
    if (!this.isOpen) throw storeClosed(this.url);
  }
}
