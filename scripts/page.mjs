// Builds the page of the inspector: one module with all of its files as strings, which replaces src/inspector/page-files.ts.
//
// The page is a program for browsers in src/inspector/page: `index.html`, `main.tsx` and `style/index.css`. Its files are compressed
// here, once. The names of scripts and styles contain their hashes, so browsers keep them for good.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { build } from "esbuild";
import { rolldown } from "rolldown";

/** @import { OutputChunk } from "rolldown" */

/** What a browser loads before the first view, in bytes after gzip. */
const MAX_FIRST_VIEW = 80_000;

/**
 * @param {string} folder the sources of the page
 * @returns {Promise<{ module: string, moduleIds: string[], firstView: number }>}
 */
export async function buildPage(folder) {
  const bundle = await rolldown({
    input: { main: join(folder, "main.tsx") },
    platform: "browser",
    tsconfig: false,
    transform: { target: "es2022", jsx: { runtime: "automatic", importSource: "preact" } },
  });
  const { output } = await bundle.generate({
    format: "esm",
    entryFileNames: "[name]-[hash].js",
    chunkFileNames: "[name]-[hash].js",
    minify: true,
    comments: false,
  });
  await bundle.close();
  const chunks = /** @type {OutputChunk[]} */ (output.filter(({ type }) => type === "chunk"));
  const styles = await readStyles(join(folder, "style", "index.css"));
  /** @type {Map<string, { type: string, content: Buffer }>} */
  const files = new Map(
    chunks.map(({ fileName, code }) => [
      fileName,
      { type: "text/javascript; charset=utf-8", content: Buffer.from(code) },
    ]),
  );
  files.set(styles.name, { type: "text/css; charset=utf-8", content: styles.content });
  const entry = /** @type {OutputChunk} */ (chunks.find(({ isEntry }) => isEntry));
  const first = firstChunks(entry, chunks);
  const preloads = first
    .filter((name) => name !== entry.fileName)
    .map((name) => `<link rel="modulepreload" href="{{base}}/assets/${name}">`);
  const html = readFileSync(join(folder, "index.html"), "utf8")
    .replace("{{style}}", `{{base}}/assets/${styles.name}`)
    .replace("{{script}}", `{{base}}/assets/${entry.fileName}`)
    .replace("</head>", `${preloads.join("")}</head>`);
  files.set("index.html", { type: "text/html; charset=utf-8", content: Buffer.from(html) });
  const sizeOf = (/** @type {string} */ name) => gzipSync(files.get(name)?.content ?? "", { level: 9 }).length;
  const firstView = ["index.html", styles.name, ...first].reduce((sum, name) => sum + sizeOf(name), 0);
  if (firstView > MAX_FIRST_VIEW) {
    throw new Error(`The first view of the inspector has ${firstView} bytes after gzip, more than ${MAX_FIRST_VIEW}.`);
  }
  const encoded = [...files].map(([name, { type, content }]) => [name, { type, ...encode(content) }]);
  return {
    module: `export const PAGE_FILES = ${JSON.stringify(Object.fromEntries(encoded))};`,
    moduleIds: chunks.flatMap(({ moduleIds }) => moduleIds),
    firstView,
  };
}

/** @param {Buffer} content */
function encode(content) {
  const options = {
    params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: content.length },
  };
  return { brotli: brotliCompressSync(content, options).toString("base64"), hash: hashOf(content) };
}

/** @param {string} file */
async function readStyles(file) {
  const { outputFiles } = await build({
    entryPoints: [file],
    bundle: true,
    minify: true,
    write: false,
    logLevel: "error",
  });
  const content = Buffer.from(/** @type {{ contents: Uint8Array }} */ (outputFiles[0]).contents);
  return { name: `style-${hashOf(content).slice(0, 8)}.css`, content };
}

/** The script of the page and all that it imports before it runs. @param {OutputChunk} entry @param {OutputChunk[]} chunks */
function firstChunks(entry, chunks) {
  const names = new Set([entry.fileName]);
  for (const name of names)
    for (const each of chunks.find(({ fileName }) => fileName === name)?.imports ?? []) names.add(each);
  return [...names];
}

/** @param {Buffer} content */
function hashOf(content) {
  return createHash("sha256").update(content).digest("base64url").slice(0, 16);
}
