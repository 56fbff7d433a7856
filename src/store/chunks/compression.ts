/**
 * How bodies are compressed: zstd where Node has it, deflate elsewhere. Both are read everywhere, so that a store that a
 * newer Node wrote can be opened by an older one.
 */
import { createRequire } from "node:module";
import { promisify } from "node:util";
import zlib from "node:zlib";
import type { decompress as decompressInJavaScript } from "fzstd";

/** What newer versions of `node:zlib` have. */
interface Zstd {
  readonly zstdCompress: (
    body: Uint8Array,
    options: object,
    done: (error: Error | null, packed: Buffer) => void,
  ) => void;
  readonly zstdDecompressSync: (body: Uint8Array) => Buffer;
  readonly constants: { readonly ZSTD_c_compressionLevel: number };
}

const native = "zstdCompress" in zlib ? (zlib as unknown as Zstd) : undefined;

/** The body is stored as it is. */
export const RAW = 0;
const DEFLATE = 1;
const ZSTD = 2;

/** Smaller bodies gain too little to be worth unpacking. */
const MIN_BYTES = 512;
/** What a body must shrink to for compression to pay: reading it costs time as well. */
const MAX_RATIO = 0.8;
/** The fastest level: higher ones gain a few percent and take several times as long. */
const LEVEL = 1;

/** Is there a compression that costs so little to read that everything may be compressed as soon as it is packed? */
export const HAS_FAST_COMPRESSION = native !== undefined;

export interface CompressedBody {
  readonly codec: number;
  readonly body: Uint8Array;
}

/** Compresses a body off the main thread; leaves it as it is where that does not pay. */
export async function compress(body: Uint8Array): Promise<CompressedBody> {
  if (body.length < MIN_BYTES) return { codec: RAW, body };
  const packed = native ? await withZstd(native, body) : await withDeflate(body);
  return packed.body.length <= body.length * MAX_RATIO ? packed : { codec: RAW, body };
}

async function withZstd(zstd: Zstd, body: Uint8Array): Promise<CompressedBody> {
  const params = { [zstd.constants.ZSTD_c_compressionLevel]: LEVEL };
  return { codec: ZSTD, body: await promisify(zstd.zstdCompress)(body, { params }) };
}

async function withDeflate(body: Uint8Array): Promise<CompressedBody> {
  return { codec: DEFLATE, body: await promisify(zlib.deflateRaw)(body, { level: LEVEL }) };
}

/** Node's own; else one written in JavaScript, which is loaded only where it is needed. */
function zstdDecompress(body: Uint8Array): Uint8Array {
  if (native) return native.zstdDecompressSync(body);
  const fzstd = createRequire(import.meta.url)("fzstd") as { decompress: typeof decompressInJavaScript };
  return fzstd.decompress(body);
}

/** The body as it was, or why it cannot be had. */
export function decompress(codec: number, body: Uint8Array): Uint8Array | { readonly unreadable: string } {
  try {
    switch (codec) {
      case RAW:
        return body;
      case DEFLATE:
        return zlib.inflateRawSync(body);
      case ZSTD:
        return zstdDecompress(body);
      default:
        return { unreadable: `is packed in a way (${codec}) that this version does not know; update the package` };
    }
  } catch (error) {
    return { unreadable: `cannot be unpacked: ${(error as Error).message}` };
  }
}
