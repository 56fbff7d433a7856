/**
 * The search index of a SQLite store. It is in tables that are created when it is first used. If SQLite has no full-text index (on a
 * handle of the caller), or the tables are too damaged to be recreated, it is in memory.
 */
import { isSavepointError } from "../../errors.js";
import { openScanTextIndex } from "../shared/index.js";
import type { KeyRange, Mark, Store, TextIndex, TextSource, TextUpdate } from "../contract/index.js";
import type { SqliteConnection } from "./connection.js";
import type { WriteBuffer } from "./write-buffer.js";
import { isFullTextMissing } from "./text-schema.js";
import { TextTables } from "./text-tables.js";

export class SqliteTextIndex implements TextIndex {
  readonly #tables: TextTables;
  readonly #store: Pick<Store, "list">;
  readonly #assertOpen: () => void;
  #prepared: Promise<void> | undefined;
  /** Replaces the tables if they cannot be used. */
  #inMemory: TextIndex | undefined;

  /** @param assertOpen throws if the store is closed */
  constructor(connection: SqliteConnection, buffer: WriteBuffer, store: Pick<Store, "list">, assertOpen: () => void) {
    this.#tables = new TextTables(connection, buffer);
    this.#store = store;
    this.#assertOpen = assertOpen;
  }

  async changes(ranges: readonly KeyRange[], limit: number): Promise<Mark[]> {
    return (await this.#index()).changes(ranges, limit);
  }

  async sources(names: readonly string[]): Promise<(TextSource | undefined)[]> {
    return (await this.#index()).sources(names);
  }

  async sourcesById(ids: readonly number[]): Promise<(TextSource | undefined)[]> {
    return (await this.#index()).sourcesById(ids);
  }

  async update(update: TextUpdate): Promise<boolean> {
    return (await this.#index()).update(update);
  }

  async find(text: string, options: { readonly below: number; readonly limit: number }): Promise<number[]> {
    return (await this.#index()).find(text, options);
  }

  async remove(names: readonly string[]): Promise<void> {
    this.#assertOpen();
    if (this.#inMemory) return this.#inMemory.remove(names);
    await this.#orNothing(() => this.#tables.remove(names));
  }

  /** Removes the data of deleted documents that is still in the tables. */
  async purge(): Promise<void> {
    this.#assertOpen();
    await this.#orNothing(() => this.#tables.purge());
  }

  async tidy(): Promise<void> {
    await (await this.#index()).tidy?.();
  }

  async clear(): Promise<void> {
    this.#assertOpen();
    if (this.#inMemory) return this.#inMemory.clear();
    try {
      await this.#tables.clear();
    } catch (error) {
      if (!isFullTextMissing(error) && !isSavepointError(error, "DAMAGED")) throw error;
      this.#inMemory ??= openScanTextIndex(this.#store);
    }
  }

  /** Does nothing if SQLite has no full-text index: then there are no tables. A damaged index is removed completely. */
  async #orNothing(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (isFullTextMissing(error)) return;
      if (!isSavepointError(error, "DAMAGED")) throw error;
      await this.clear();
    }
  }

  async #index(): Promise<TextIndex> {
    this.#assertOpen();
    if (this.#inMemory) return this.#inMemory;
    try {
      await (this.#prepared ??= this.#tables.prepare());
      return this.#tables;
    } catch (error) {
      this.#prepared = undefined;
      if (!isFullTextMissing(error)) throw error;
      return (this.#inMemory ??= openScanTextIndex(this.#store));
    }
  }
}
