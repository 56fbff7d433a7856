// The peers live in bench/peers, so that the package does not depend on them; they are installed when first needed.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const folder = fileURLToPath(new URL("../peers/", import.meta.url));

/** LangGraph's `SqliteSaver`. */
export async function loadSqliteSaver() {
  install();
  const require = createRequire(join(folder, "package.json"));
  const entry = pathToFileURL(require.resolve("@langchain/langgraph-checkpoint-sqlite")).href;
  return (await import(entry)).SqliteSaver;
}

function install() {
  if (existsSync(join(folder, "node_modules", "@langchain"))) return;
  console.error("installing the peers (better-sqlite3 may have to compile, which takes minutes)");
  const { status } = spawnSync("npm", ["ci"], { cwd: folder, stdio: ["ignore", "inherit", "inherit"] });
  if (status !== 0) throw new Error("the peers could not be installed");
}
