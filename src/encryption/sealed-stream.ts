/**
 * Sealed streams: bundles and backups of encrypted stores.
 *
 * A sealed stream is a line of JSON and the encrypted bytes. The line names the master key, and has the key of the stream, wrapped
 * by the master key. The bytes are encrypted in chunks with AES-256-GCM. The nonce is the number of the chunk; that is safe because every
 * stream has its own random key. Authenticated with a chunk are the first line, its number, and whether it is the last one. So chunks
 * cannot be changed, removed, reordered, or moved to another stream.
 */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from "node:crypto";
import { SavepointError } from "../errors.js";
import { isCounter, isString, objectOf, oneOf, optional } from "../util/index.js";
import type { KeyRing, WrappedMasterKey } from "./key-ring.js";
import { CIPHER, KEY_BYTES, type MasterKey, NONCE_BYTES, TAG_BYTES } from "./master-key.js";

const FORMAT = 1;
/** The bytes of a chunk before it is encrypted. Only the last one is shorter. */
const CHUNK_BYTES = 1 << 16;
const SEALED_BYTES = CHUNK_BYTES + TAG_BYTES;
/** What the data key of a stream is bound to. */
const PLACE = "sealed stream";
/** The first bytes of a sealed stream. */
const MAGIC = Buffer.from('{"savepoint":"sealed"');
const NEWLINE = 10;
/** The longest first line. What a key provider returns is a few hundred bytes. */
const MAX_HEADER = 1 << 16;

type Bytes = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/** The first line of a sealed stream. */
interface SealedHeader {
  readonly savepoint: "sealed";
  readonly format: number;
  /** The fingerprint of the master key. */
  readonly key: string;
  /** The key of the stream, encrypted by the master key. */
  readonly wrapped: string;
  /** The master key as its provider has wrapped it; missing if it is not from a provider. */
  readonly master?: { readonly name: string; readonly wrapped: string };
}

const isSealedHeader = objectOf({
  savepoint: oneOf("sealed"),
  format: isCounter,
  key: isString,
  wrapped: isString,
  master: optional(objectOf({ name: isString, wrapped: isString })),
});

/** The master key of a store, as sealed streams name it. */
export interface SealingKey {
  readonly key: MasterKey;
  /** Its wrapped form, if it is from a provider. */
  readonly wrapped: WrappedMasterKey | undefined;
}

/** Encrypts a stream. */
export async function* sealStream(plain: Bytes, { key, wrapped: master }: SealingKey): AsyncGenerator<Uint8Array> {
  const bytes = randomBytes(KEY_BYTES);
  const header: SealedHeader = {
    savepoint: "sealed",
    format: FORMAT,
    key: key.fingerprint,
    wrapped: key.wrap(bytes, PLACE).toString("base64"),
    ...(master && { master: { name: master.name, wrapped: Buffer.from(master.wrapped).toString("base64") } }),
  };
  const line = Buffer.from(`${JSON.stringify(header)}\n`);
  const cipher = new ChunkCipher(bytes, line);
  yield line;
  // A full chunk is kept until more bytes follow: it may be the last one.
  const pending = new ByteQueue();
  for await (const chunk of plain) {
    pending.add(chunk);
    while (pending.length > CHUNK_BYTES) yield cipher.seal(pending.take(CHUNK_BYTES), false);
  }
  yield cipher.seal(pending.take(pending.length), true);
}

/** How a stream is opened that may be sealed. */
export interface UnsealOptions {
  /** The keys; `undefined` if there are none. */
  readonly ring: KeyRing | undefined;
  /** Whether a stream that is not sealed is rejected. */
  readonly required: boolean;
}

/**
 * Decrypts a stream if it is sealed; any other is returned as it is. Only authentic bytes are yielded.
 *
 * @throws KEY_REQUIRED, WRONG_KEY, NOT_ENCRYPTED; DAMAGED at the first chunk that was changed, removed or moved
 */
export async function* unsealStream(source: Bytes, { ring, required }: UnsealOptions): AsyncGenerator<Uint8Array> {
  const pending = new ByteQueue();
  let cipher: ChunkCipher | undefined;
  let isPlain = false;
  for await (const chunk of source) {
    // The reader of the stream rejects what is not bytes.
    isPlain ||= !((chunk as unknown) instanceof Uint8Array) || (pending.length === 0 && !cipher && !canBeSealed(chunk));
    if (isPlain) {
      if (required) throw notSealed();
      yield chunk;
      continue;
    }
    pending.add(chunk);
    if (!cipher) {
      const start = pending.peek();
      if (!canBeSealed(start)) {
        if (required) throw notSealed();
        isPlain = true;
        yield pending.take(pending.length);
        continue;
      }
      const end = start.indexOf(NEWLINE);
      if (end < 0 && start.length > MAX_HEADER) throw damagedStream("its first line is too long");
      if (end < 0) continue;
      cipher = await openCipher(pending.take(end + 1), ring);
    }
    while (pending.length > SEALED_BYTES) yield cipher.open(pending.take(SEALED_BYTES), false);
  }
  if (isPlain) return;
  if (cipher) yield* cipher.openEnd(pending.take(pending.length));
  // A stream that ends in its first line: its reader reports that it is incomplete.
  else if (pending.length > 0) yield pending.take(pending.length);
}

/** Whether a stream that begins with these bytes can be sealed. */
function canBeSealed(start: Uint8Array): boolean {
  return MAGIC.subarray(0, start.length).equals(start.subarray(0, MAGIC.length));
}

async function openCipher(line: Buffer, ring: KeyRing | undefined): Promise<ChunkCipher> {
  const header = parseHeader(line);
  const { key: fingerprint, wrapped, master } = header;
  if (!ring) {
    throw new SavepointError(
      "KEY_REQUIRED",
      `The bundle is encrypted with the key with the fingerprint ${fingerprint}. Use a store that is opened with this key, or import the bundle with \`encryption: { key }\` or --key-file.`,
      { details: { fingerprint } },
    );
  }
  const stored = master && { fingerprint, name: master.name, wrapped: Buffer.from(master.wrapped, "base64") };
  const key = await ring.find(fingerprint, async () => stored);
  if (!key) {
    throw new SavepointError(
      "WRONG_KEY",
      `The bundle is encrypted with the key with the fingerprint ${fingerprint}, which is not among the given ones. Use a store that is opened with this key too, or import the bundle with \`encryption: { key }\` or --key-file.`,
      { details: { fingerprint } },
    );
  }
  const bytes = key.unwrap(Buffer.from(wrapped, "base64"), PLACE);
  if (!bytes) throw damagedStream("its first line was changed");
  return new ChunkCipher(bytes, line);
}

function parseHeader(line: Buffer): SealedHeader {
  let header: unknown;
  try {
    header = JSON.parse(line.toString("utf8"));
  } catch (cause) {
    throw damagedStream("its first line was changed", cause);
  }
  const format = Number((header as { readonly format?: unknown }).format);
  if (format > FORMAT) {
    throw new SavepointError(
      "STORE_TOO_NEW",
      `The bundle was encrypted by a newer version of Savepoint (format ${format}; this version reads formats up to ${FORMAT}). Update the package.`,
      { details: { found: format, supported: FORMAT } },
    );
  }
  if (!isSealedHeader(header)) throw damagedStream("its first line was changed");
  return header as unknown as SealedHeader;
}

/** Encrypts or decrypts the chunks of one stream, in order. */
class ChunkCipher {
  readonly #key: Buffer;
  /** The hash of the first line, which is authenticated with every chunk. */
  readonly #header: Buffer;
  #number = 0;

  constructor(key: Buffer, header: Buffer) {
    this.#key = key;
    this.#header = createHash("sha256").update(header).digest();
  }

  seal(plain: Buffer, isLast: boolean): Buffer {
    const cipher = createCipheriv(CIPHER, this.#key, this.#nonce()).setAAD(this.#place(isLast));
    this.#number++;
    return Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
  }

  /** Decrypts the next chunk. @throws DAMAGED */
  open(sealed: Buffer, isLast: boolean): Buffer {
    const plain = this.#tryOpen(sealed, isLast);
    if (!plain) throw damagedStream("it was changed after it was written");
    this.#number++;
    return plain;
  }

  /** Decrypts the last chunk. If it is not the last one, its bytes are yielded before the error. */
  *openEnd(sealed: Buffer): Generator<Buffer> {
    const last = this.#tryOpen(sealed, true);
    if (last) return yield last;
    const other = this.#tryOpen(sealed, false);
    if (other) yield other;
    const isCut = other !== undefined || sealed.length < SEALED_BYTES;
    throw damagedStream(
      isCut
        ? "its end is missing or was changed. Complete sections were processed; use the complete bundle to continue"
        : "it was changed after it was written",
    );
  }

  #tryOpen(sealed: Buffer, isLast: boolean): Buffer | undefined {
    if (sealed.length < TAG_BYTES) return undefined;
    const decipher = createDecipheriv(CIPHER, this.#key, this.#nonce(), { authTagLength: TAG_BYTES });
    decipher.setAAD(this.#place(isLast)).setAuthTag(sealed.subarray(-TAG_BYTES));
    const plain = decipher.update(sealed.subarray(0, -TAG_BYTES));
    try {
      decipher.final();
      return plain;
    } catch {
      // The tag does not fit.
      return undefined;
    }
  }

  #nonce(): Buffer {
    const nonce = Buffer.alloc(NONCE_BYTES);
    nonce.writeUIntBE(this.#number, NONCE_BYTES - 6, 6);
    return nonce;
  }

  #place(isLast: boolean): Buffer {
    return Buffer.concat([this.#header, Buffer.from(`\n${this.#number}\n${isLast ? "last" : "more"}`)]);
  }
}

/** Bytes that were received and not used yet. */
class ByteQueue {
  #parts: Buffer[] = [];
  length = 0;

  /** Adds bytes, which are copied: the source may reuse its buffer. */
  add(bytes: Uint8Array): void {
    this.#parts.push(Buffer.from(bytes));
    this.length += bytes.length;
  }

  /** All bytes. They stay in the queue. */
  peek(): Buffer {
    if (this.#parts.length !== 1) this.#parts = [Buffer.concat(this.#parts)];
    return this.#parts[0] as Buffer;
  }

  /** Removes the first bytes and returns them. */
  take(count: number): Buffer {
    const all = this.peek();
    this.#parts = [all.subarray(count)];
    this.length = all.length - count;
    return all.subarray(0, count);
  }
}

function notSealed(): SavepointError<"NOT_ENCRYPTED"> {
  return new SavepointError(
    "NOT_ENCRYPTED",
    "The bundle is not encrypted, and a key was given for it. Import it without `encryption` or --key-file if you trust where it comes from.",
  );
}

function damagedStream(why: string, cause?: unknown): SavepointError<"DAMAGED"> {
  return new SavepointError("DAMAGED", `The bundle is damaged: ${why}.`, { cause });
}
