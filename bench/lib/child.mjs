// Runs a benchmark in a process of its own, which prints its result as JSON on the last line.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

/** @param {string} file beside the benchmarks @param {unknown} input @param {NodeJS.ProcessEnv} [env] */
export function inChild(file, input, env = {}) {
  const path = fileURLToPath(new URL(`../${file}`, import.meta.url));
  const { status, stdout } = spawnSync(process.execPath, [path, JSON.stringify(input)], {
    encoding: "utf8",
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "inherit"],
    maxBuffer: 2 ** 26,
  });
  if (status !== 0) throw new Error(`${file} failed`);
  return JSON.parse(stdout.trim().split("\n").at(-1) ?? "");
}

/** What the parent gave. */
export const input = () => JSON.parse(process.argv[2] ?? "{}");
