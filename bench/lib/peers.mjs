// The peers live in bench/peers, so that the package does not depend on them; they are installed when first needed.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const folder = fileURLToPath(new URL("../peers/", import.meta.url));

/** LangGraph's `SqliteSaver`. */
export async function loadSqliteSaver() {
  install();
  if (!existsSync(join(folder, "node_modules", "better-sqlite3", "build"))) {
    console.error("building better-sqlite3, which may take minutes");
    npm("rebuild", "better-sqlite3");
  }
  return (await load("@langchain/langgraph-checkpoint-sqlite")).SqliteSaver;
}

/** LangGraph's `PostgresSaver`. */
export async function loadPostgresSaver() {
  install();
  return (await load("@langchain/langgraph-checkpoint-postgres")).PostgresSaver;
}

/** DBOS Transact, the driver it uses, and its version. */
export async function loadDbos() {
  install();
  const { DBOS } = await load("@dbos-inc/dbos-sdk");
  const { default: pg } = await load("pg");
  return { DBOS, pg, version: versionOf("@dbos-inc/dbos-sdk") };
}

/** @param {string} name @returns {Promise<any>} */
async function load(name) {
  const require = createRequire(join(folder, "package.json"));
  return import(pathToFileURL(require.resolve(name)).href);
}

/** The version that is installed. @param {string} name */
export function versionOf(name) {
  return JSON.parse(readFileSync(join(folder, "node_modules", name, "package.json"), "utf8")).version;
}

function install() {
  const { dependencies } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const names = Object.keys(dependencies);
  if (names.every((name) => existsSync(join(folder, "node_modules", name)))) return;
  console.error("installing the peers");
  // What has to be compiled is compiled for whoever needs it.
  npm("ci", "--ignore-scripts");
}

/** @param {string[]} args */
function npm(...args) {
  const { status } = spawnSync("npm", args, { cwd: folder, stdio: ["ignore", "inherit", "inherit"] });
  if (status !== 0) throw new Error(`npm ${args.join(" ")} failed: the peers could not be installed`);
}
