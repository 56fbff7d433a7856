// Makes one program of the command line, so that it starts at once: hundreds of small modules take longer to find than to
// run. The library beside it stays as it is, for programs that import it, and for the threads that are started from it.
//
// What the command line needs of other packages is in the bundle, with their licenses beside it; the MCP SDK and the SQLite
// driver are loaded from where they are installed.
import { chmodSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

const root = fileURLToPath(new URL("..", import.meta.url));
const dist = join(root, "dist");
const bin = join(dist, "bin");
const INSIDE = [
  "commander",
  "@clack/prompts",
  "@clack/core",
  "picocolors",
  "sisteransi",
  "fast-string-width",
  "fast-string-truncated-width",
  "fast-wrap-ansi",
];

const bundle = await rolldown({
  input: { savepoint: join(dist, "cli", "bin.js") },
  platform: "node",
  external: [
    "@modelcontextprotocol/server",
    "@modelcontextprotocol/server/stdio",
    "zod",
    "@photostructure/sqlite",
    "fzstd",
  ],
  plugins: [stayWhereTheyWere()],
});
const { output } = await bundle.write({
  dir: bin,
  format: "esm",
  entryFileNames: "[name].js",
  chunkFileNames: "[name]-[hash].js",
  codeSplitting: {
    groups: [
      { name: "light", test: isLight, priority: 1 },
      { name: "library", test: isLibrary },
    ],
  },
  // Comments are half of what would be read at each start.
  minify: { compress: false, mangle: false },
});
await bundle.close();

const inside = new Set(output.flatMap((chunk) => (chunk.type === "chunk" ? chunk.moduleIds : [])).flatMap(packageOf));
const unlisted = [...inside].filter((name) => !INSIDE.includes(name));
if (unlisted.length > 0) throw new Error(`Not meant to be in the bundle: ${unlisted.join(", ")}`);
const licenses = [...inside].sort().map((name) => {
  const { version, license } = JSON.parse(readFileSync(join(root, "node_modules", name, "package.json"), "utf8"));
  return `${name} ${version} (${license})\n\n${textOfLicense(join(root, "node_modules", name))}\n`;
});
writeFileSync(join(bin, "LICENSES.txt"), licenses.join("\n---\n\n"));
chmodSync(join(bin, "savepoint.js"), 0o755);
// All of it is in the bundle.
rmSync(join(dist, "cli"), { recursive: true });

/** Help does not wait for the library. @param {string} id */
function isLight(id) {
  return id === join(dist, "errors.js") || id === join(dist, "state", "codec", "json.js");
}

/** What most verbs need is one file; plain files and the MCP server are loaded by those who want them. @param {string} id */
function isLibrary(id) {
  return id.startsWith(dist) && !/^(cli|mcp|store\/file)\//.test(relative(dist, id).replaceAll("\\", "/"));
}

/** Modules that look for files beside them find them: `import.meta.url` stays what it was. */
function stayWhereTheyWere() {
  return {
    name: "stay-where-they-were",
    /** @param {string} code @param {string} id */
    transform(code, id) {
      if (!id.startsWith(dist) || !code.includes("import.meta.url")) return undefined;
      const place = JSON.stringify(relative(bin, id));
      return code.replaceAll("import.meta.url", `new URL(${place}, import.meta.url).href`);
    },
  };
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
