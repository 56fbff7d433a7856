/**
 * The reads of a SQLite store, as the base class of the store.
 *
 * They run on the same connection as the writes, between transactions. If the write buffer may contain data that is read, it is
 * flushed first, so that later reads need not consider it. If it cannot be flushed immediately, its contents are added to the
 * result.
 */
import { type CompressedBody, readBlob, readRefs, readSpan, type RefsRow } from "../chunks/index.js";
import type { Frame, ItemRefs, ItemSpan, KeyRange, Store, StoredRanges, Unreadable } from "../contract/index.js";
import { CloseableStore, isChecksum, type ListOptions, type RecordResult } from "../shared/index.js";
import { SavepointError } from "../../errors.js";
import { pickByKey } from "../../util/index.js";
import { BufferOverlay } from "./buffer-overlay.js";
import { ChunkCache, selectChunks, spanArguments } from "./chunk-reader.js";
import type { SqliteConnection } from "./connection.js";
import { type StoredRecordRow, toRecordRow } from "./rows.js";
import type { Footprint, WriteBuffer } from "./write-buffer.js";

const SELECT_RECORDS = "SELECT key, sum, refs, value FROM savepoint_record";
const CHUNK_HEADS = selectChunks("tape, first, count, codec, sum, head, CASE WHEN count = 1 THEN body END AS body");
const RECORD_BYTES = `SELECT coalesce(sum(
    length(CAST(key AS BLOB)) + length(CAST(refs AS BLOB)) + length(CAST(value AS BLOB))), 0) AS bytes
  FROM savepoint_record WHERE key >= ? AND key < ?`;
// The length of a body is in the header of its row: the pages of the body itself are not read.
const CHUNK_BYTES = `SELECT coalesce(sum(length(head) + length(body)), 0) AS bytes
  FROM savepoint_chunk WHERE tape >= ? AND tape < ?`;

export abstract class SqliteReader extends CloseableStore {
  readonly url: string;
  readonly #connection: SqliteConnection;
  readonly #buffer: WriteBuffer;

  constructor(connection: SqliteConnection, buffer: WriteBuffer) {
    super();
    this.url = connection.url;
    this.#connection = connection;
    this.#buffer = buffer;
  }

  get(keys: readonly string[]): Promise<(RecordResult | undefined)[]> {
    return this.#read(
      { keys },
      () => {
        const rows =
          keys.length === 1
            ? this.#connection.rows<StoredRecordRow>(`${SELECT_RECORDS} WHERE key = ?`, keys[0] as string)
            : this.#connection.rows<StoredRecordRow>(
                `${SELECT_RECORDS} WHERE key IN (SELECT value FROM json_each(?))`,
                JSON.stringify(keys),
              );
        return pickByKey(keys, rows.map(verifyRecord), ({ key }) => key);
      },
      (found, overlay) => overlay.get(keys, found),
    );
  }

  list(range: KeyRange, { limit, reverse = false }: ListOptions): Promise<RecordResult[]> {
    const sql = `${SELECT_RECORDS} WHERE key >= ? AND key < ? ORDER BY key ${reverse ? "DESC" : "ASC"} LIMIT ?`;
    return this.#read(
      undefined,
      () => this.#connection.rows<StoredRecordRow>(sql, range.from, range.to, limit).map(verifyRecord),
      (found, overlay) => overlay.list(range, limit, reverse, found),
    );
  }

  items(spans: readonly ItemSpan[]): Promise<(Frame | Unreadable)[]> {
    return this.#read(
      { tapes: spans.map((span) => span.tape) },
      () => {
        const chunks = new ChunkCache(this.#connection);
        const found: (Frame | Unreadable)[] = [];
        this.#connection.snapshot(() => {
          for (const span of spans) readSpan(chunks.chunksOf(span), span, found);
        });
        return found;
      },
      (found, overlay) => overlay.items(spans, found),
    );
  }

  itemRefs(span: ItemSpan): Promise<ItemRefs[] | Unreadable> {
    return this.#read(
      { tapes: [span.tape] },
      () => readRefs(this.#connection.rows<RefsRow>(CHUNK_HEADS, ...spanArguments(span)), span),
      (found, overlay) => overlay.itemRefs(span, found),
    );
  }

  tapes({ from, to }: KeyRange): Promise<string[]> {
    const sql = "SELECT DISTINCT tape FROM savepoint_chunk WHERE tape >= ? AND tape < ? ORDER BY tape";
    return this.#read(
      undefined,
      () => this.#connection.rows<{ tape: string }>(sql, from, to).map((row) => row.tape),
      (found, overlay) => overlay.tapes({ from, to }, found),
    );
  }

  bytesOf(ranges: StoredRanges): Promise<number> {
    const sum = (sql: string, range: KeyRange): number =>
      this.#connection.row<{ bytes: number }>(sql, range.from, range.to)?.bytes ?? 0;
    return this.#read(
      undefined,
      () =>
        this.#connection.snapshot(() => {
          let bytes = 0;
          for (const range of ranges.records) bytes += sum(RECORD_BYTES, range);
          for (const range of ranges.tapes) bytes += sum(CHUNK_BYTES, range);
          return bytes;
        }),
      (found, overlay) => overlay.bytesOf(ranges, found),
    );
  }

  blob(hash: string): Promise<Uint8Array | Unreadable> {
    return this.readUnbuffered(() => {
      const sql = "SELECT codec, body FROM savepoint_blob WHERE hash = ?";
      return readBlob(hash, this.#connection.row<CompressedBody>(sql, hash));
    });
  }

  blobs({ after, limit }: Parameters<Store["blobs"]>[0]): Promise<string[]> {
    const sql = "SELECT hash FROM savepoint_blob WHERE hash > ? ORDER BY hash LIMIT ?";
    return this.readUnbuffered(() => this.#connection.rows<{ hash: string }>(sql, after, limit).map((row) => row.hash));
  }

  /** Reads data that is never in the write buffer. */
  protected async readUnbuffered<T>(read: () => T): Promise<T> {
    this.assertOpen();
    try {
      return this.#connection.readCurrent(read);
    } catch (error) {
      throw this.#connection.failure(error, "Reading");
    }
  }

  /**
   * Reads data that may be in the write buffer.
   *
   * @param footprint what is read, if it is known: the buffer is flushed only if it may have some of it
   * @param read reads the tables
   * @param complete adds the buffer's contents to the result of `read`, if the buffer cannot be flushed now
   */
  async #read<T>(
    footprint: Footprint | undefined,
    read: () => T,
    complete: (found: T, overlay: BufferOverlay) => T,
  ): Promise<T> {
    this.assertOpen();
    try {
      if (this.#connection.isReadOnly) return this.#readOverlaid(read, complete);
      if (footprint ? !this.#buffer.mayContain(footprint) : this.#buffer.isEmpty) return read();
      if (await this.#connection.tryTransaction(() => this.#buffer.flush())) return read();
      return this.#connection.snapshot(() => complete(read(), new BufferOverlay(this.#buffer.readEntries())));
    } catch (error) {
      throw this.#connection.failure(error, "Reading");
    }
  }

  /** Reads tables and buffer in one snapshot. The buffer of a read-only store is never flushed. */
  #readOverlaid<T>(read: () => T, complete: (found: T, overlay: BufferOverlay) => T): T {
    return this.#connection.readCurrent(() =>
      this.#connection.snapshot(() => {
        const overlay = this.#buffer.readOverlay();
        return overlay ? complete(read(), overlay) : read();
      }),
    );
  }
}

function verifyRecord(row: StoredRecordRow): RecordResult {
  const { key, sum, refs, value } = toRecordRow(row);
  // The table does not have the columns that it should.
  if (typeof (key as unknown) !== "string") {
    throw new SavepointError("DAMAGED", "The tables of the database are damaged. Restore the file from a backup.");
  }
  return isChecksum(sum, key, refs, value) ? { key, refs, value } : { key, unreadable: `the record ${key} is damaged` };
}
