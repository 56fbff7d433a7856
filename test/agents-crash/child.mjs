// Executes the jobs on standard input, one JSON line each. Its output on standard output is synchronous: a line means
// that what it reports was done before the process died.
import { copyFileSync, existsSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { Savepoint } from "savepoint";
import { withTestHooks } from "../support/test-hooks.mjs";
import { found, NOW, operations, warmUp } from "./operations.mjs";
import { openTelling } from "./statements.mjs";

/** @typedef {{ point: string, passing: number }} Death */

/** @param {object} line */
const say = (line) => writeSync(1, `${JSON.stringify(line)}\n`);

/** @param {string} path @param {boolean} statements @param {(point: string) => void} probe */
function open(path, statements, probe) {
  const on = { damage: fail, backgroundFailure: fail };
  const target = statements ? openTelling(path, probe) : `sqlite:${path}`;
  return Savepoint.open(target, withTestHooks({ probe }, { now: () => NOW, on }));
}

/** @param {object} event @returns {never} */
function fail(event) {
  writeSync(2, `${JSON.stringify(event)}\n`);
  process.exit(1);
}

/**
 * Executes an operation, and dies in it if the job names a point.
 *
 * @param {string} path @param {string} name @param {Death | undefined} death
 * @param {string | undefined} copies where to put a copy of the file before it, at every commit and after it
 */
async function perform(path, name, death, copies) {
  const operation = operations[name];
  if (!operation) throw new Error(`There is no operation ${name}`);
  let armed = false;
  let copied = 0;
  /** @type {string[]} */
  const passed = [];
  const copy = () => {
    if (copies === undefined) return;
    for (const end of ["", "-wal"])
      if (existsSync(path + end)) copyFileSync(path + end, `${copies}/${copied}.db${end}`);
    copied++;
  };
  let left = death?.passing;
  const { statements = false } = operation;
  const sp = await open(path, statements, (point) => {
    if (!armed) return;
    if (!statements || /[A-Z]/.test(point)) passed.push(point);
    if (point === death?.point && --/** @type {number} */ (left) === 0) process.kill(process.pid, "SIGKILL");
    if (point === "committed") copy();
  });
  await warmUp(sp);
  await operation.first?.(sp);
  copy();
  say({ acknowledged: "before" });
  armed = true;
  const outcome = await operation.run(sp);
  armed = false;
  say({ acknowledged: "after" });
  copy();
  await sp.close();
  return { passed, copied, outcome };
}

/** Appends to one conversation until it is killed. @param {string} path @param {string} name */
async function appendForever(path, name) {
  const sp = await Savepoint.open(`sqlite:${path}`, { durability: "process" });
  for (let n = 0; ; n++) {
    const parts = Array.from({ length: 1 + (n % 3) }, (_, part) => `${name} ${n} ${part}`);
    await sp.conversations.append(
      "shared",
      parts.map((content) => ({ role: "user", content })),
    );
    say({ acknowledged: parts });
  }
}

/** Searches for a word on request. @param {string} path @param {string} word @param {Death | undefined} death */
async function search(path, word, death) {
  let left = death?.passing;
  const sp = await open(path, death !== undefined, (point) => {
    if (point === death?.point && --/** @type {number} */ (left) === 0) process.kill(process.pid, "SIGKILL");
  });
  const hits = await found(sp, word);
  await sp.close();
  return hits;
}

const jobs = { perform, appendForever, search };

for await (const line of createInterface(process.stdin)) {
  const [name, ...args] = /** @type {[keyof typeof jobs, ...unknown[]]} */ (JSON.parse(line));
  const job = /** @type {(...args: unknown[]) => Promise<unknown>} */ (jobs[name]);
  try {
    // `undefined` is null in JSON.
    say({ done: await job(...args.map((argument) => argument ?? undefined)) });
  } catch (error) {
    say({ error: error instanceof Error ? error.stack : String(error) });
  }
}
