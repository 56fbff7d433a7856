// The peers live in bench/peers, so that the package does not depend on them; they are installed when first needed.
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, readFileSync, realpathSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const folder = fileURLToPath(new URL("../peers/", import.meta.url));

/** LangGraph's `SqliteSaver`. */
export async function loadSqliteSaver() {
  install();
  prepareSqlite();
  return (await load("@langchain/langgraph-checkpoint-sqlite")).SqliteSaver;
}

/** Makes better-sqlite3 the one of this version of Node: it is compiled once for each, and copied into its place. */
function prepareSqlite() {
  const { modules: abi } = process.versions;
  const home = join(folder, "node_modules", "better-sqlite3");
  const [compiled, mark] = [join(home, "build", "Release", "better_sqlite3.node"), join(home, "bench-abi")];
  if (existsSync(mark) && readFileSync(mark, "utf8") === abi) return;
  const kept = join(home, `bench-${abi}.node`);
  if (existsSync(kept)) {
    // Renamed, because another process may have loaded the old one.
    copyFileSync(kept, `${compiled}.new`);
    renameSync(`${compiled}.new`, compiled);
  } else {
    console.error(`compiling better-sqlite3 for Node ${process.version}, which may take minutes`);
    // npm runs on this Node, and its compiler uses the headers that came with it. In the npm package they are beside the binary.
    const bin = dirname(realpathSync(process.execPath));
    const root = dirname(bin);
    const packaged = join(root, "node_modules", `node-${process.platform}-${process.arch}`);
    const headers = [root, packaged].find((each) => existsSync(join(each, "include", "node", "node.h")));
    npm(["rebuild", "better-sqlite3"], {
      PATH: `${bin}${delimiter}${process.env["PATH"]}`,
      ...(headers !== undefined && { npm_config_nodedir: headers }),
    });
    copyFileSync(compiled, kept);
  }
  writeFileSync(mark, abi);
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
  npm(["ci", "--ignore-scripts"]);
}

/** @param {string[]} args @param {NodeJS.ProcessEnv} [env] */
function npm(args, env = {}) {
  const { status } = spawnSync("npm", args, {
    cwd: folder,
    env: { ...process.env, ...env },
    stdio: ["ignore", "inherit", "inherit"],
  });
  if (status !== 0) throw new Error(`npm ${args.join(" ")} failed: the peers could not be installed`);
}
