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
/** The length of an Execute message for the unnamed portal, with all rows. */
const EXECUTE_LENGTH = 9;

/** The messages of all statements. @param known the names that are prepared; without it, no statement is prepared */
function encode(statements: readonly Statement[], known: Set<string> | undefined): Buffer {
  const closed = known && known.size > MAX_PREPARED ? [...known] : [];
  if (closed.length > 0) known?.clear();
  const parsed = new Set<string>();
  const plans = statements.map(({ name: given = "", text, values }) => {
    const name = known ? given : "";
    const parses = name === "" || !(known?.has(name) || parsed.has(name));
    if (parses) parsed.add(name);
    return { name, text, parses, values, lengths: values.map(lengthOf) };
  });
  let size = SYNC.length;
  // Names are ASCII.
  for (const name of closed) size += closeLength(name) + 1;
  for (const { name, text, parses, lengths } of plans) {
    if (parses) size += (name === "" ? 0 : closeLength(name) + 1) + 9 + name.length + Buffer.byteLength(text);
    size += bindLength(name, lengths) + 1 + EXECUTE_LENGTH + 1;
  }
  const writer = new MessageWriter(size);
  for (const name of closed) writer.close(name);
  for (const { name, text, parses, values, lengths } of plans) {
    if (parses) {
      // A statement that failed may still be prepared, and closing a missing one is not an error.
      if (name !== "") writer.close(name);
      writer
        .begin(PARSE, 8 + name.length + Buffer.byteLength(text))
        .cString(name)
        .cString(text)
        .int16(0);
    }
    writer.begin(BIND, bindLength(name, lengths)).byte(0).cString(name);
    writer.int16(values.length);
    for (const value of values) writer.int16(value instanceof Uint8Array ? 1 : 0);
    writer.int16(values.length);
    for (const [index, value] of values.entries()) writer.value(value, lengths[index] as number);
    writer.int16(0);
    writer.begin(EXECUTE, EXECUTE_LENGTH).byte(0).int32(0);
  }
  return writer.end();
}

/** The length of a parameter in bytes; -1 for null. */
function lengthOf(value: PostgresValue): number {
  if (value === null) return -1;
  if (typeof value === "number") return String(value).length;
  return typeof value === "string" ? Buffer.byteLength(value) : value.length;
}

const closeLength = (name: string): number => 6 + name.length;

function bindLength(name: string, lengths: readonly number[]): number {
  let length = 4 + 1 + name.length + 1 + 2 + 2 * lengths.length + 2 + 2;
  for (const each of lengths) length += 4 + Math.max(0, each);
  return length;
}

/** Writes messages into one buffer of a known size. */
class MessageWriter {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(size: number) {
    this.#bytes = Buffer.allocUnsafe(size);
  }

  /** @param length that of the message without its type */
  begin(type: number, length: number): this {
    return this.byte(type).int32(length);
  }

  /** Closes a prepared statement. */
  close(name: string): void {
    this.begin(CLOSE, closeLength(name)).byte(STATEMENT).cString(name);
  }

  byte(value: number): this {
    this.#bytes[this.#at++] = value;
    return this;
  }

  int16(value: number): this {
    this.#at = this.#bytes.writeUInt16BE(value, this.#at);
    return this;
  }

  int32(value: number): this {
    this.#at = this.#bytes.writeInt32BE(value, this.#at);
    return this;
  }

  cString(text: string): this {
    this.#at += this.#bytes.write(text, this.#at);
    return this.byte(0);
  }

  value(value: PostgresValue, length: number): void {
    this.int32(length);
    if (value === null) return;
    if (value instanceof Uint8Array) {
      this.#bytes.set(value, this.#at);
      this.#at += length;
    } else this.#at += this.#bytes.write(String(value), this.#at);
  }

  end(): Buffer {
    this.#bytes.set(SYNC, this.#at);
    if (this.#at + SYNC.length !== this.#bytes.length)
      throw new Error("The length of a message differs from the planned one.");
    return this.#bytes;
  }
}
