/** Serves the page from memory. Every path that is not a file is a view of the page, which has its own router. */
import { createHash } from "node:crypto";
import { brotliDecompressSync, gzipSync } from "node:zlib";
import { HttpError, notFound } from "./http/errors.js";
import { SECURITY_HEADERS } from "./http/responses.js";
import { PAGE_FILES } from "./page-files.js";

/** A file in the encodings in which it is sent. */
interface ServedFile {
  readonly type: string;
  readonly etag: string;
  /** Whether its name changes with its content. */
  readonly isImmutable: boolean;
  readonly br: Uint8Array | undefined;
  readonly gzip: () => Uint8Array;
  readonly identity: () => Uint8Array;
}

const NOTICE =
  "<!doctype html><html lang=en><meta charset=utf-8><title>Savepoint</title><p>The page is part of the built package: run npm run build. The API is at api/.</html>";

/** Files have an extension; the paths of views do not. */
const ASSETS = "/assets/";

export class PageServer {
  readonly #files = new Map<string, ServedFile>();
  readonly #basePath: string;

  constructor(basePath: string) {
    this.#basePath = basePath;
  }

  /** Responds with a file, or with the page. @param path the path below the base path */
  respond(request: Request, path: string): Response {
    if (request.method !== "GET" && request.method !== "HEAD") {
      throw new HttpError(405, "METHOD_NOT_ALLOWED", `This address supports GET, not ${request.method}.`);
    }
    const isAsset = path.startsWith(ASSETS);
    const name = isAsset ? path.slice(ASSETS.length) : "index.html";
    if (isAsset && !Object.hasOwn(PAGE_FILES, name)) throw notFound("The page has no such file. Reload it.");
    return toResponse(request, this.#file(name));
  }

  #file(name: string): ServedFile {
    const served = this.#files.get(name) ?? (name === "index.html" ? this.#readPage() : readAsset(name));
    this.#files.set(name, served);
    return served;
  }

  #readPage(): ServedFile {
    const file = PAGE_FILES["index.html"];
    const html = file ? brotliDecompressSync(Buffer.from(file.brotli, "base64")).toString() : NOTICE;
    // The base path has only characters that need no escaping in HTML.
    const bytes = Buffer.from(html.replaceAll("{{base}}", this.#basePath));
    const hash = createHash("sha256").update(bytes).digest("base64url").slice(0, 16);
    return {
      type: "text/html; charset=utf-8",
      etag: `"${hash}"`,
      isImmutable: false,
      br: undefined,
      ...lazily(() => bytes),
    };
  }
}

function readAsset(name: string): ServedFile {
  const { type, brotli, hash } = PAGE_FILES[name] as (typeof PAGE_FILES)[string];
  const br = Buffer.from(brotli, "base64");
  return { type, etag: `"${hash}"`, isImmutable: true, br, ...lazily(() => brotliDecompressSync(br)) };
}

function lazily(read: () => Uint8Array): Pick<ServedFile, "gzip" | "identity"> {
  let [identity, gzip]: (Uint8Array | undefined)[] = [];
  const readIdentity = (): Uint8Array => (identity ??= read());
  return { identity: readIdentity, gzip: () => (gzip ??= gzipSync(readIdentity(), { level: 9 })) };
}

function toResponse(request: Request, { type, etag, isImmutable, br, gzip, identity }: ServedFile): Response {
  const accepted = (request.headers.get("accept-encoding") ?? "").toLowerCase();
  const encoding = br && /\bbr\b/.test(accepted) ? "br" : /\bgzip\b/.test(accepted) ? "gzip" : undefined;
  const headers: Record<string, string> = {
    ...SECURITY_HEADERS,
    "content-type": type,
    // The page is small and revalidated each time, so that an updated package is noticed.
    "cache-control": isImmutable ? "public, max-age=31536000, immutable" : "no-cache",
    etag,
    vary: "accept-encoding",
  };
  if (
    request.headers
      .get("if-none-match")
      ?.split(/\s*,\s*/)
      .includes(etag)
  ) {
    return new Response(null, { status: 304, headers });
  }
  if (encoding) headers["content-encoding"] = encoding;
  const body = encoding === "br" ? (br as Uint8Array) : encoding === "gzip" ? gzip() : identity();
  headers["content-length"] = String(body.byteLength);
  return new Response(request.method === "HEAD" ? null : Buffer.from(body), { headers });
}
