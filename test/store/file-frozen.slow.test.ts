/** Processes that write together and are frozen at arbitrary moments, for longer than others wait for a sign of life. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { openFileStore } from "../../src/store.js";
import { Random } from "../../src/testing/random.js";
import { until } from "../support/until.mjs";
import { makeFolder, removeFolder } from "./temporary-folder.js";

const CHILD = fileURLToPath(new URL("./file-child.mjs", import.meta.url));
const PROCESSES = 3;
const FREEZES = 60;
const SILENCE = 80;

interface Acknowledged {
  readonly n: number;
  readonly tape: string;
  readonly item: number;
}

let folder: string;
let path: string;
let children: ChildProcess[];
beforeEach(async () => {
  folder = await makeFolder();
  path = join(folder, "store");
  children = [];
});
afterEach(async () => {
  for (const child of children) await end(child);
  await removeFolder(folder);
});

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "close");
  child.kill("SIGKILL");
  await exit;
}

it("processes that are frozen at random lose, repeat and damage nothing", { timeout: 600_000 }, async () => {
  const seed = Number(process.env["SAVEPOINT_SEED"] ?? Date.now() % 1_000_000);
  console.log(`seed ${seed}`);
  const random = new Random(seed);
  const acknowledged = new Map<string, Acknowledged[]>();
  for (let n = 0; n < PROCESSES; n++) {
    const name = `process-${n}`;
    const durability = n === 0 ? "process" : "power";
    const args = [CHILD, path, "append", name, JSON.stringify({ silence: SILENCE, durability })];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    const list: Acknowledged[] = [];
    acknowledged.set(name, list);
    createInterface({ input: child.stdout }).on("line", (line) => list.push(JSON.parse(line) as Acknowledged));
    children.push(child);
  }
  const total = (): number => [...acknowledged.values()].reduce((sum, list) => sum + list.length, 0);
  await until(() => [...acknowledged.values()].every((list) => list.length > 0), "every process to save");

  const reader = await openFileStore(path);
  for (let time = 0; time < FREEZES; time++) {
    const frozen = children.filter(() => random.chance(50)).slice(0, PROCESSES - 1);
    for (const child of frozen) child.kill("SIGSTOP");
    // Others take over, if it was the holder, and get on.
    const before = total();
    await until(() => total() >= before + 5, "the others to save");
    expect(await reader.check?.()).toEqual([]);
    for (const child of frozen) child.kill("SIGCONT");
    await sleep(random.below(30));
    expect(
      children.map(({ exitCode }) => exitCode),
      `none has failed (seed ${seed})`,
    ).toEqual(children.map(() => null));
  }
  for (const child of children) await end(child);

  const again = await openFileStore(path);
  for (const store of [reader, again]) {
    expect(await store.check?.()).toEqual([]);
    for (const [name, list] of acknowledged) {
      const [record] = await store.get([`at/${name}`]);
      const last = record && "value" in record ? Number(record.value) : -1;
      expect(last).toBeGreaterThanOrEqual((list.at(-1) as Acknowledged).n);
      for (const { n, tape, item } of list) {
        expect(await store.items([{ tape, start: item, count: 1 }]), `seed ${seed}`).toEqual([
          { json: JSON.stringify([name, n]), refs: "" },
        ]);
      }
      // Each of its numbers is there once.
      const found: number[] = [];
      for (const tape of [name, "shared"]) {
        for (const frame of await store.items([{ tape, start: 0, count: total() + 1_000 }])) {
          if (!("json" in frame)) continue;
          const [owner, n] = JSON.parse(frame.json) as [string, number];
          if (owner === name) found.push(n);
        }
      }
      expect(
        found.sort((a, b) => a - b),
        `seed ${seed}`,
      ).toEqual(Array.from({ length: last + 1 }, (_, n) => n));
    }
    await store.close();
  }
});
