/** Processes that end without closing the store: `sp.lastShutdown` reports those that crashed, and only those. */
import { spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";

let folder: string;
beforeEach(async () => (folder = await mkdtemp(join(tmpdir(), "savepoint-exit-"))));
afterEach(() => rmSync(folder, { recursive: true }));

/** Runs a program that opens a store, completes a run and ends without closing it. */
async function endWith(last: string, url: string): Promise<number | null> {
  const program = `
    import { defineAgent, Savepoint } from ${JSON.stringify(new URL("../../dist/index.js", import.meta.url).href)};
    const sp = await Savepoint.open(${JSON.stringify(url)});
    const agent = (step) => defineAgent({ name: "a", initial: () => ({}), step });
    await sp.run(agent((run) => run.complete("done")), { session: "s", input: {} });
    ${last}`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], { stdio: "ignore" });
  return new Promise((resolve) => child.once("exit", (code) => resolve(code)));
}

const NEVER = `agent((run) => run.llm(() => new Promise(() => {})))`;

it.each([
  ["at its last line", "", 0, true],
  ["with process.exit()", "process.exit(0);", 0, true],
  ["with process.exit() and an error code", "process.exit(3);", 3, true],
  ["with an uncaught error", "throw new Error('a bug');", 1, false],
  ["with a rejected promise that nothing handles", "Promise.reject(new Error('a bug'));", 1, false],
  ["with SIGKILL", "process.kill(process.pid, 'SIGKILL');", null, false],
  [
    "with process.exit() inside a run",
    `await sp.start(${NEVER}, { session: "t", input: {} }); process.exit(0);`,
    0,
    false,
  ],
] as const)("a process that ends %s is reported as crashed only if it has crashed", async (_, last, code, clean) => {
  const url = `sqlite:${join(folder, "store.db")}`;
  expect(await endWith(last, url)).toBe(code);
  await using sp = await Savepoint.open(url);
  expect(sp.lastShutdown.clean).toBe(clean);
  expect(await sp.sessions.load("s")).toMatchObject({ status: "completed" });
  if (last.includes("start")) expect(sp.lastShutdown.interrupted).toEqual([{ sessionId: "t", branch: "main" }]);
});

it("a process that ends without closing a store that cannot write synchronously is reported", async () => {
  const url = `file:${join(folder, "store")}`;
  expect(await endWith("", url)).toBe(0);
  await using sp = await Savepoint.open(url);
  expect(sp.lastShutdown.clean).toBe(false);
});
