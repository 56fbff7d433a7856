/**
 * Compression of chunks and blobs: zstd where Node has it, deflate elsewhere. Both can be read everywhere, so an older Node
 * opens a store that a newer one wrote.
 */
import { promisify } from "node:util";
import zlib from "node:zlib";
import { decompress as decompressInJavaScript } from "fzstd";
import { hashBytes } from "../../state/index.js";
import type { Commit, Unreadable } from "../contract/index.js";
import { maxDecompressedSize } from "../shared/index.js";

/** The part of `node:zlib` that only newer versions of Node have. */
interface Zstd {
  readonly zstdCompress: (
    body: Uint8Array,
    options: object,
    done: (error: Error | null, packed: Buffer) => void,
  ) => void;
  readonly zstdDecompressSync: (body: Uint8Array, options: { readonly maxOutputLength: number }) => Buffer;
  readonly constants: { readonly ZSTD_c_compressionLevel: number };
}

const native = "zstdCompress" in zlib ? (zlib as unknown as Zstd) : undefined;

/** The codec of a body that is not compressed. */
export const RAW = 0;
const DEFLATE = 1;
const ZSTD = 2;
/** The codec of a body of encrypted items: their bytes, uncompressed, because encrypted bytes cannot be compressed. */
export const SEALED = 3;

/** Whether bodies with this codec are compressed. */
export function isCompressed(codec: number): boolean {
  return codec !== RAW && codec !== SEALED;
}

/** Smaller bodies are not compressed, because they gain too little. */
const MIN_BYTES = 512;
/** A body must shrink to this share of its size, because reading a compressed one costs time as well. */
const MAX_RATIO = 0.8;
/** The fastest level. Higher ones gain a few percent and take several times as long. */
const LEVEL = 1;

/** Whether there is a codec that is so fast to read that chunks can be compressed as soon as they are packed. */
export const HAS_FAST_COMPRESSION = native !== undefined;

/** A body as it is stored, and how it is compressed. */
export interface CompressedBody {
  readonly codec: number;
  readonly body: Uint8Array;
}

/** Compresses a body off the main thread, or returns it as it is if compression does not pay or readers would reject it. */
export async function compress(body: Uint8Array): Promise<CompressedBody> {
  if (body.length < MIN_BYTES) return { codec: RAW, body };
  const packed = native ? await withZstd(native, body) : await withDeflate(body);
  const { length } = packed.body;
  const pays = length <= body.length * MAX_RATIO && body.length <= maxDecompressedSize(length);
  return pays ? packed : { codec: RAW, body };
}

/** The stored forms of the blobs that these commits contain, by hash. @param compressing whether to compress them */
export async function compressBlobs(
  commits: readonly Commit[],
  compressing: boolean,
): Promise<ReadonlyMap<string, CompressedBody>> {
  const stored = new Map<string, CompressedBody>();
  for (const { hash, bytes } of commits.flatMap(({ blobs = [] }) => blobs)) {
    if (!bytes || stored.has(hash)) continue;
    stored.set(hash, compressing ? await compress(bytes) : { codec: RAW, body: bytes });
  }
  return stored;
}

async function withZstd(zstd: Zstd, body: Uint8Array): Promise<CompressedBody> {
  const params = { [zstd.constants.ZSTD_c_compressionLevel]: LEVEL };
  // Readers reject a frame that does not state the size of its content.
  return { codec: ZSTD, body: await promisify(zstd.zstdCompress)(body, { params, pledgedSrcSize: body.length }) };
}

async function withDeflate(body: Uint8Array): Promise<CompressedBody> {
  return { codec: DEFLATE, body: await promisify(zlib.deflateRaw)(body, { level: LEVEL }) };
}

/** Uses Node's zstd, or one written in JavaScript. */
function zstdDecompress(body: Uint8Array, limit: number): Uint8Array {
  const size = statedSize(Buffer.from(body.buffer, body.byteOffset, body.length));
  if (size === undefined) throw new Error("it does not state its size");
  if (size > limit) throw new Error(`it states ${size} bytes, and at most ${limit} are expected`);
  if (native) return native.zstdDecompressSync(body, { maxOutputLength: Math.max(1, size) });
  return decompressInJavaScript(body, new Uint8Array(size));
}

const ZSTD_MAGIC = 0xfd2fb528;

/** The size of the content that the header of a zstd frame states (RFC 8878, 3.1.1.1); `undefined` if it states none. */
function statedSize(frame: Buffer): number | undefined {
  const descriptor = frame.readUInt8(4);
  if (frame.readUInt32LE(0) !== ZSTD_MAGIC) return undefined;
  const isSingleSegment = (descriptor & 0x20) !== 0;
  const dictionaryBytes = [0, 1, 2, 4][descriptor & 3] as number;
  const at = (isSingleSegment ? 5 : 6) + dictionaryBytes;
  switch (descriptor >> 6) {
    case 0:
      return isSingleSegment ? frame.readUInt8(at) : undefined;
    case 1:
      return frame.readUInt16LE(at) + 256;
    case 2:
      return frame.readUInt32LE(at);
    default:
      return Number(frame.readBigUInt64LE(at));
  }
}

/**
 * Decompresses a body. If that fails, `unreadable` is the reason, which completes a sentence about the body.
 *
 * @param most the most bytes that the body can have decompressed, if that is known
 */
export function decompress(
  codec: number,
  body: Uint8Array,
  most = Infinity,
): Uint8Array | { readonly unreadable: string } {
  const limit = Math.min(most, maxDecompressedSize(body.length));
  try {
    switch (codec) {
      case RAW:
        return body;
      case DEFLATE:
        return zlib.inflateRawSync(body, { maxOutputLength: Math.max(1, limit) });
      case ZSTD:
        return zstdDecompress(body, limit);
      default:
        return { unreadable: `has the unknown codec ${codec}; update the package` };
    }
  } catch (error) {
    return { unreadable: `cannot be decompressed: ${(error as Error).message}` };
  }
}

/** Decompresses and verifies the stored form of a blob. The hash covers the uncompressed bytes, so it serves as the checksum. */
export function readBlob(hash: string, row: CompressedBody | undefined): Uint8Array | Unreadable {
  if (!row) return { unreadable: `blob ${hash} is missing` };
  const { codec, body } = row;
  if (!(body instanceof Uint8Array)) return { unreadable: `blob ${hash} is damaged` };
  const bytes = decompress(codec, body);
  if ("unreadable" in bytes) return { unreadable: `blob ${hash} is damaged: it ${bytes.unreadable}` };
  return hashBytes(bytes) === hash ? bytes : { unreadable: `blob ${hash} is damaged` };
}
