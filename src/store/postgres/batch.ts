/**
 * Statements that are sent together: one write to the socket, one round trip, one transaction.
 *
 * `pg` sends one statement at a time. A batch is a query object of its own (`pg` accepts any object with `submit`): it writes the
 * messages of all statements, and one Sync behind them. Until a Sync the server keeps one implicit transaction, and skips
 * everything behind a statement that fails. Result rows are ignored, so nothing is described or parsed.
 */
import { Buffer } from "node:buffer";
import type { PostgresClient, PostgresValue, Statement } from "./driver.js";

/** The part of a connection of `pg` that a batch uses. */
interface Wire {
  readonly stream: { readonly writable: boolean; write(bytes: Uint8Array): unknown };
}

/** The methods that a client of `pg` calls on the query object that it is executing. */
interface Submittable {
  submit(wire: Wire): Error | null;
  handleCommandComplete(): void;
  handleReadyForQuery(): void;
  handleError(error: unknown): void;
  handleRowDescription(): void;
  handleDataRow(): void;
  handleEmptyQuery(): void;
  handlePortalSuspended(): void;
  handleCopyInResponse(): void;
  handleCopyData(): void;
}

/** A statement of a transaction has failed, and the transaction was rolled back. The cause is the error of `pg`. */
export class StatementError extends Error {
  /** The number of statements before it. If all were executed, the transaction itself failed. */
  readonly index: number;

  constructor(cause: unknown, index: number) {
    super("A statement failed.", { cause });
    this.index = index;
  }
}

/** Whether this is a client of `pg` with the parts that a batch needs. */
export function canBatch(client: PostgresClient): boolean {
  const { connection, pipeline } = client as unknown as { connection?: Partial<Wire>; pipeline?: boolean };
  return typeof connection?.stream?.write === "function" && pipeline !== true;
}

/** The names of the statements that each connection has prepared. */
const prepared = new WeakMap<PostgresClient, Set<string>>();
/** The most statements that a connection keeps prepared: the server keeps each in memory. When there are more, all are closed. */
const MAX_PREPARED = 250;

/**
 * Sends statements as one transaction. Rejects with a {@link StatementError} if one of them fails.
 *
 * @param client one for which {@link canBatch} is true
 * @param named whether to prepare the statements that have names
 */
export function sendBatch(client: PostgresClient, statements: readonly Statement[], named: boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    const query = new Batch(client, statements, named, (error) =>
      error === null ? resolve() : reject(error as Error),
    );
    (client as unknown as { query(query: Submittable): unknown }).query(query);
  });
}

class Batch implements Submittable {
  /** The SQL of the first statement, for tools that trace the queries of `pg`. */
  readonly text: string | undefined;
  readonly statements: readonly Statement[];
  /** Replaced by `pg` if queries have a timeout. */
  callback: (error: unknown) => void;
  readonly #known: Set<string> | undefined;
  #completed = 0;

  constructor(
    client: PostgresClient,
    statements: readonly Statement[],
    named: boolean,
    callback: (error: unknown) => void,
  ) {
    this.text = statements[0]?.text;
    this.callback = callback;
    this.statements = statements;
    if (!named) return;
    this.#known = prepared.get(client) ?? new Set();
    prepared.set(client, this.#known);
  }

  submit({ stream }: Wire): Error | null {
    // If the connection has ended, `pg` reports that as the error of this query.
    if (!stream.writable) return null;
    try {
      stream.write(encode(this.statements, this.#known));
      return null;
    } catch (error) {
      // Nothing was sent. If this threw, `pg` would wait for an answer forever.
      return error as Error;
    }
  }

  handleCommandComplete(): void {
    const { name } = this.statements[this.#completed++] ?? {};
    if (name !== undefined) this.#known?.add(name);
  }

  handleReadyForQuery(): void {
    this.callback(null);
  }

  handleError(error: unknown): void {
    this.callback(new StatementError(error, this.#completed));
  }

  handleRowDescription(): void {}
  handleDataRow(): void {}
  handleEmptyQuery(): void {}
  handlePortalSuspended(): void {}
  handleCopyInResponse(): void {}
  handleCopyData(): void {}
}

// The types of messages, and the message that ends a batch.
const PARSE = 0x50;
const BIND = 0x42;
const EXECUTE = 0x45;
const CLOSE = 0x43;
const SYNC = Buffer.from([0x53, 0, 0, 0, 4]);
const STATEMENT = 0x53;
/** The protocol stores the number of parameters in two bytes. */
const MAX_PARAMETERS = 65_535;
/** An upper bound of the bytes of a message before the name of its statement. */
const MAX_HEADER = 8;

/** The messages of all statements. @param known the names that are prepared; without it, no statement is prepared */
function encode(statements: readonly Statement[], known: Set<string> | undefined): Buffer {
  const writer = new MessageWriter();
  if (known && known.size > MAX_PREPARED) {
    for (const name of known) writer.close(name);
    known.clear();
  }
  const parsed = new Set<string>();
  for (const { name: given = "", text, values } of statements) {
    const name = known ? given : "";
    if (name === "" || !(known?.has(name) || parsed.has(name))) {
      parsed.add(name);
      // A statement that failed may still be prepared, and closing a missing one is not an error.
      if (name !== "") writer.close(name);
      writer.parse(name, text);
    }
    writer.bind(name, values);
    writer.execute();
  }
  return writer.end();
}

/** The buffer into which messages are written. It grows to the size of the largest batch, up to {@link MAX_SCRATCH}. */
let scratch = Buffer.allocUnsafeSlow(16 * 1024);
/** A larger buffer is used for one batch only. */
const MAX_SCRATCH = 1024 * 1024;
/** The size of a longer string is measured. That of a shorter one is estimated: three bytes of UTF-8 for each UTF-16 code unit. */
const MAX_ESTIMATED = 4096;

/** Writes messages one after another into one buffer. */
class MessageWriter {
  #bytes = scratch;
  #at = 0;

  parse(name: string, text: string): void {
    this.#reserve(MAX_HEADER + sizeOf(name) + 1 + sizeOf(text) + 1 + 2);
    const start = this.#begin(PARSE);
    this.#cString(name);
    this.#cString(text);
    this.#int16(0);
    this.#finish(start);
  }

  /** Binds the parameters of a statement: bytes in the binary format, everything else as text. */
  bind(name: string, values: readonly PostgresValue[]): void {
    if (values.length > MAX_PARAMETERS)
      throw new Error(`A statement has ${values.length} parameters. PostgreSQL allows ${MAX_PARAMETERS}.`);
    this.#reserve(MAX_HEADER + 1 + sizeOf(name) + 1 + 6 + 2 * values.length);
    const start = this.#begin(BIND);
    this.#bytes[this.#at++] = 0;
    this.#cString(name);
    this.#int16(values.length);
    for (const value of values) this.#int16(value instanceof Uint8Array ? 1 : 0);
    this.#int16(values.length);
    for (const value of values) this.#value(value);
    this.#reserve(2);
    this.#int16(0);
    this.#finish(start);
  }

  /** Executes the statement that was bound, and returns all rows. */
  execute(): void {
    this.#reserve(10);
    const start = this.#begin(EXECUTE);
    this.#bytes[this.#at++] = 0;
    this.#int32(this.#at, 0);
    this.#at += 4;
    this.#finish(start);
  }

  /** Closes a prepared statement. */
  close(name: string): void {
    this.#reserve(MAX_HEADER + sizeOf(name) + 1);
    const start = this.#begin(CLOSE);
    this.#bytes[this.#at++] = STATEMENT;
    this.#cString(name);
    this.#finish(start);
  }

  /** Ends the batch with a Sync. @returns all messages */
  end(): Buffer {
    this.#reserve(SYNC.length);
    this.#bytes.set(SYNC, this.#at);
    const messages = this.#bytes.subarray(0, this.#at + SYNC.length);
    if (this.#bytes.length > MAX_SCRATCH) return messages;
    scratch = this.#bytes;
    // A copy, because the socket may still use it when the next batch is written.
    return Buffer.from(messages);
  }

  #value(value: PostgresValue): void {
    if (value === null) {
      this.#reserve(4);
      this.#int32(this.#at, -1);
      this.#at += 4;
    } else if (value instanceof Uint8Array) {
      this.#reserve(4 + value.length);
      this.#int32(this.#at, value.length);
      this.#bytes.set(value, this.#at + 4);
      this.#at += 4 + value.length;
    } else {
      const text = typeof value === "string" ? value : String(value);
      this.#reserve(4 + sizeOf(text));
      const length = this.#bytes.write(text, this.#at + 4);
      this.#int32(this.#at, length);
      this.#at += 4 + length;
    }
  }

  /** Begins a message. @returns the position of its length, which {@link #finish} writes */
  #begin(type: number): number {
    this.#bytes[this.#at] = type;
    const start = this.#at + 1;
    this.#at += 5;
    return start;
  }

  #finish(start: number): void {
    this.#int32(start, this.#at - start);
  }

  #cString(text: string): void {
    this.#at += this.#bytes.write(text, this.#at);
    this.#bytes[this.#at++] = 0;
  }

  #int16(value: number): void {
    this.#bytes[this.#at++] = value >> 8;
    this.#bytes[this.#at++] = value;
  }

  #int32(at: number, value: number): void {
    const bytes = this.#bytes;
    bytes[at] = value >> 24;
    bytes[at + 1] = value >> 16;
    bytes[at + 2] = value >> 8;
    bytes[at + 3] = value;
  }

  /** Makes room for `size` more bytes. */
  #reserve(size: number): void {
    if (this.#at + size <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(this.#at + size, 2 * this.#bytes.length));
    larger.set(this.#bytes.subarray(0, this.#at));
    this.#bytes = larger;
  }
}

/** An upper bound of the number of bytes of a string in UTF-8. */
function sizeOf(text: string): number {
  return text.length <= MAX_ESTIMATED ? 3 * text.length : Buffer.byteLength(text);
}
