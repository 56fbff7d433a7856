// Makes the published JavaScript of the sources: node scripts/bundle.mjs
//
// Each entry point of package.json and the command line is a file, and they share chunks, so that shared code exists once.
// Loading a few files takes a fraction of the time of loading a module for each source. Stores are chunks of their own,
// loaded when they are opened. The declarations beside the files come from tsc; those that no entry point needs are removed.
//
// The programs of threads are bundled first, each into one script, and become strings in the library: a bundler of a user
// includes strings, but not files that are found by a URL.
//
// The page of the inspector is bundled for browsers, and becomes strings in the inspector.
//
// What the command line and the page need of other packages is in the bundle, with their licenses beside it. Peers, the MCP SDK and the
// SQLite driver are loaded from where they are installed.
import { chmodSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";
import ts from "typescript5";
import { buildPage } from "./page.mjs";

/** @import { InputOptions, OutputChunk, Plugin } from "rolldown" */

const root = fileURLToPath(new URL("..", import.meta.url));
const src = join(root, "src");
const dist = join(root, "dist");
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

/** The files that are published, by their sources. */
const ENTRIES = {
  index: "index.ts",
  store: "store.ts",
  "integrations/langgraph/index": "integrations/langgraph/index.ts",
  "integrations/ai/index": "integrations/ai/index.ts",
  "integrations/claude/index": "integrations/claude/index.ts",
  "integrations/openai/index": "integrations/openai/index.ts",
  "mcp/index": "mcp/index.ts",
  "inspector/index": "inspector/index.ts",
  "testing/index": "testing/index.ts",
  "testing/crash-child": "testing/crash-child.ts",
  "bin/savepoint": "cli/bin.ts",
};

/** The packages that are in the bundle. */
const INSIDE = [
  "commander",
  "@clack/prompts",
  "@clack/core",
  "picocolors",
  "sisteransi",
  "fast-string-width",
  "fast-string-truncated-width",
  "fast-wrap-ansi",
  "fzstd",
  "preact",
  "@preact/signals",
  "@preact/signals-core",
  "@tanstack/virtual-core",
];

/** @type {InputOptions} */
const SHARED = {
  platform: "node",
  tsconfig: false,
  transform: { target: "es2022" },
  external: [...Object.keys(manifest.peerDependencies), ...Object.keys(manifest.optionalDependencies)].map(
    (name) => new RegExp(`^${name}(/|$)`),
  ),
};

const walProgram = await bundleThread("store/sqlite/wal-worker.mjs", {});
const walModule = { "store/sqlite/wal-program.ts": constant("WAL_PROGRAM", walProgram) };
const heartbeatProgram = await bundleThread("runs/leases/heartbeat-main.ts", walModule);
const page = await buildPage(join(src, "inspector", "page"));
const version = `export const version = () => ${JSON.stringify(manifest.version)};`;
const replaced = {
  ...walModule,
  "runs/leases/heartbeat-program.ts": constant("HEARTBEAT_PROGRAM", heartbeatProgram),
  "cli/version.ts": version,
  "mcp/version.ts": version,
  "inspector/version.ts": version,
  "inspector/page-files.ts": page.module,
};

const inside = await bundleEntries();
await bundleInternals();
writeLicenses(inside);
chmodSync(join(dist, "bin", "savepoint.js"), 0o755);
removeUnusedDeclarations();

/** Makes one script of the program of a thread. @param {string} source @param {Record<string, string>} modules */
async function bundleThread(source, modules) {
  const bundle = await rolldown({ ...SHARED, input: join(src, source), plugins: [replace(modules)] });
  const { output } = await bundle.generate({ format: "cjs", codeSplitting: false, minify: true, comments: false });
  await bundle.close();
  return output[0].code.trim();
}

/** Writes the entry points and their chunks. Returns the packages in them. */
async function bundleEntries() {
  const input = Object.fromEntries(Object.entries(ENTRIES).map(([name, source]) => [name, join(src, source)]));
  const bundle = await rolldown({ ...SHARED, input, plugins: [replace(replaced), keepPlaces()] });
  const { output } = await bundle.write({
    dir: dist,
    format: "esm",
    entryFileNames: "[name].js",
    chunkFileNames: "chunks/[name].js",
    // The declarations have the documentation. Annotations are for the bundlers of users.
    comments: { legal: true, annotation: true, jsdoc: false },
    sourcemap: true,
    codeSplitting: {
      groups: [
        { name: "light", test: isLight, priority: 3 },
        { name: "base", test: isBase, priority: 2 },
        { name: "library", test: isLibrary, priority: 1 },
        { name: "packing", test: isPacking },
        { name: "prompts", test: /node_modules\/@clack\// },
      ],
    },
  });
  await bundle.close();
  const chunks = /** @type {OutputChunk[]} */ (output.filter(({ type }) => type === "chunk"));
  for (const chunk of chunks) if (!needsMap(chunk)) removeMap(chunk);
  return new Set([...chunks.flatMap(({ moduleIds }) => moduleIds), ...page.moduleIds].flatMap(packageOf));
}

/** Writes what the benchmarks and the fuzzer use of the inside. It is not published. */
async function bundleInternals() {
  const input = { internals: join(root, "scripts", "internals.ts") };
  const bundle = await rolldown({ ...SHARED, input, plugins: [replace(replaced), keepPlaces()] });
  await bundle.write({ dir: dist, format: "esm", codeSplitting: false });
  await bundle.close();
}

/** Whether users debug this code. The maps would be half of it again. @param {OutputChunk} chunk */
function needsMap({ moduleIds }) {
  return moduleIds.some((id) => sourceOf(id) !== "" && !/^cli\/|heartbeat-program/.test(sourceOf(id)));
}

/** @param {OutputChunk} chunk */
function removeMap({ fileName, code }) {
  rmSync(join(dist, `${fileName}.map`), { force: true });
  writeFileSync(join(dist, fileName), code.replace(/\/\/# sourceMappingURL=.*\s*$/, ""));
}

/** Help does not wait for the library. @param {string} id */
function isLight(id) {
  return ["errors.ts", "state/codec/json.ts", "cli/errors.ts", "cli/exit-codes.ts"].includes(sourceOf(id));
}

/** What every store needs, and so every entry point. @param {string} id */
function isBase(id) {
  return /^(util|state|store\/(contract|shared|memory)|store\/\w+\.ts$)/.test(sourceOf(id));
}

/** What most verbs and all integrations need. @param {string} id */
function isLibrary(id) {
  const source = sourceOf(id);
  return source !== "" && !/^(store|cli|mcp|inspector|testing|integrations)\b|heartbeat-program/.test(source);
}

/** What the stores of databases share. @param {string} id */
function isPacking(id) {
  return sourceOf(id).startsWith("store/chunks/") || packageOf(id).includes("fzstd");
}

/** The path of a source in `src/`; empty for others. @param {string} id */
function sourceOf(id) {
  return id.startsWith(join(src, "/")) ? relative(src, id).replaceAll("\\", "/") : "";
}

/** @param {string} name @param {string} value */
function constant(name, value) {
  return `export const ${name} = ${JSON.stringify(value)};`;
}

/** Replaces modules. @param {Record<string, string>} modules by their paths in `src/` @returns {Plugin} */
function replace(modules) {
  return {
    name: "replace",
    load(id) {
      const code = modules[sourceOf(id)];
      return code === undefined ? undefined : { code, moduleType: "js" };
    },
  };
}

/**
 * Modules that refer to files beside them find them: `new URL("../x.js", import.meta.url)` is the same file of `dist/`, or of
 * the package, as it is of `src/`.
 *
 * @returns {Plugin}
 */
function keepPlaces() {
  const DIST = "savepoint-dist:";
  return {
    name: "keep-places",
    transform(code, id) {
      const source = sourceOf(id);
      if (source === "" || !code.includes("import.meta.url")) return undefined;
      const placed = code.replaceAll(/new URL\("([^"]+)", import\.meta\.url\)/g, (_all, path) => {
        const target = join(dirname(source), path).replaceAll("\\", "/");
        return `new URL("${DIST}${target}", import.meta.url)`;
      });
      // Lines stay where they were.
      return { code: placed, map: null };
    },
    renderChunk(code, { fileName }) {
      if (!code.includes(DIST)) return undefined;
      const placed = code.replaceAll(new RegExp(`"${DIST}([^"]+)"`, "g"), (_all, target) => {
        const path = relative(dirname(fileName), target).replaceAll("\\", "/");
        return JSON.stringify(path.startsWith(".") ? path : `./${path}`);
      });
      return { code: placed, map: null };
    },
  };
}

/** @param {Set<string>} packages */
function writeLicenses(packages) {
  const unlisted = [...packages].filter((name) => !INSIDE.includes(name));
  if (unlisted.length > 0) throw new Error(`Not meant to be in the bundle: ${unlisted.join(", ")}`);
  const licenses = [...packages].sort().map((name) => {
    const { version, license } = JSON.parse(readFileSync(join(root, "node_modules", name, "package.json"), "utf8"));
    return `${name} ${version} (${license})\n\n${textOfLicense(join(root, "node_modules", name))}\n`;
  });
  writeFileSync(join(dist, "LICENSES.txt"), licenses.join("\n---\n\n"));
}

/** @param {string} folder */
function textOfLicense(folder) {
  const name = readdirSync(folder).find((each) => /^licen[cs]e(\.|$)/i.test(each));
  if (!name) throw new Error(`There is no license in ${folder}`);
  return readFileSync(join(folder, name), "utf8").trim();
}

/** @param {string} id */
function packageOf(id) {
  const match = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(id);
  return match ? [/** @type {string} */ (match[1])] : [];
}

/** Keeps the declarations that the entry points of package.json refer to. */
function removeUnusedDeclarations() {
  const targets = /** @type {{ types?: string }[]} */ (Object.values(manifest.exports));
  const waiting = targets.flatMap(({ types }) => (types ? [join(root, types)] : []));
  const used = new Set(waiting);
  for (const file of waiting) {
    for (const { fileName } of ts.preProcessFile(readFileSync(file, "utf8")).importedFiles) {
      if (!fileName.startsWith(".")) continue;
      const target = join(dirname(file), fileName.replace(/\.js$/, ".d.ts"));
      if (used.has(target)) continue;
      used.add(target);
      waiting.push(target);
    }
  }
  for (const entry of readdirSync(dist, { recursive: true, withFileTypes: true })) {
    const file = join(entry.parentPath, entry.name);
    if (entry.isFile() && /\.d\.m?ts$/.test(file) && !used.has(file)) rmSync(file);
  }
  removeEmptyFolders(dist);
}

/** @param {string} folder @returns {boolean} whether it was removed */
function removeEmptyFolders(folder) {
  const entries = readdirSync(folder, { withFileTypes: true });
  const left = entries.filter((entry) => !entry.isDirectory() || !removeEmptyFolders(join(folder, entry.name)));
  if (left.length > 0) return false;
  rmSync(folder, { recursive: true });
  return true;
}
