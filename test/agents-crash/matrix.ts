/** Kills a process at every point of an operation, and checks the store that it leaves. */
import assert from "node:assert/strict";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isSavepointError, Savepoint } from "../../src/index.js";
import { Child, Victims } from "./children.js";
import { fillTemplate, found, operations, TEMPLATE_TIME } from "./operations.mjs";
import { checkSearch, takeSnapshot, withStore } from "./snapshot.js";

const LANES = 2;

/** A point of a write, and which pass of it. */
interface Death {
  readonly point: string;
  readonly passing: number;
}

/** The effect of an uninterrupted operation on a store. */
interface Reference {
  readonly deaths: readonly Death[];
  /** The states of the store before it, between its commits and after it. */
  readonly states: readonly string[];
  readonly outcome: string;
  /** The result of repeating it. */
  readonly again: { readonly state: string; readonly outcome: string };
}

const root = mkdtempSync(join(tmpdir(), "savepoint-agents-crash-"));
const template = join(root, "template.db");
const unsearched = join(root, "unsearched.db");
const lanes = Array.from({ length: LANES }, () => new Victims());
let files = 0;

async function prepareTemplates(): Promise<void> {
  let time = TEMPLATE_TIME;
  const sp = await Savepoint.open(`sqlite:${unsearched}`, { durability: "process", now: () => time++ });
  await fillTemplate(sp);
  await sp.close();
  const searched = await Savepoint.open(`sqlite:${copyOf(unsearched, template)}`, { now: () => time++ });
  await found(searched, "anchor");
  await searched.close();
}

async function tidyUp(): Promise<void> {
  await Promise.all(lanes.map((victims) => victims.close()));
  rmSync(root, { recursive: true, force: true });
}

/** @param names of operations: they are in two files, which run at once */
export function describeKills(names: readonly string[]): void {
  beforeAll(prepareTemplates);
  afterAll(tidyUp);
  describe("a process that is killed at any point of", () => {
    it.each(names)("%s leaves all of it or nothing, and can be repeated", { timeout: 120_000 }, async (name) => {
      const reference = await perform(name);
      const queue = reference.deaths.values();
      const failures: string[] = [];
      const work = async (victims: Victims): Promise<void> => {
        for (const death of queue) {
          try {
            await dieAndLook(name, death, reference, victims);
          } catch (error) {
            const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
            failures.push(`killed at "${death.point}", passing ${death.passing}: ${text}`);
          }
        }
      };
      await Promise.all(lanes.map(work));
      expect(failures).toEqual([]);
      expect(reference.deaths.length).toBeGreaterThanOrEqual(5);
    });
  });
}

/** Executes the operation without a kill. */
async function perform(name: string): Promise<Reference> {
  const { commits = 1, unsearched: first = false } = operations[name] ?? assert.fail(name);
  const copies = join(root, `copies-${files++}`);
  mkdirSync(copies);
  const path = copyOf(first ? unsearched : template);
  const child = new Child();
  const end = await child.do("perform", path, name, undefined, copies);
  await child.kill();
  assert.ok("done" in end, JSON.stringify(end));
  const { passed, copied, outcome } = end.done as { passed: string[]; copied: number; outcome: unknown };
  // The operation declares which states are visible between its commits; one with a single commit has none.
  const wanted = commits === 1 ? [0, copied - 1] : Array.from({ length: copied }, (_, copy) => copy);
  const states: string[] = [];
  for (const copy of wanted) {
    const state = await withStore(join(copies, `${copy}.db`), takeSnapshot);
    if (state !== states.at(-1)) states.push(state);
  }
  expect(states).toHaveLength(commits + 1);
  const again = await withStore(path, async (sp) => ({
    outcome: await outcomeOf(name, sp),
    state: await takeSnapshot(sp),
  }));
  return { deaths: firstAndLast(passed), states, outcome: toText(outcome), again };
}

/** Points in the middle of a transaction, which are all rolled back alike, and statements, which are many. */
const INSIDE = /^(checked|records|items|blobs|tail|[A-Z]+ .*)$/s;

/** The first pass of each point, and the last pass of the deciding ones. */
function firstAndLast(passed: readonly string[]): Death[] {
  const counts = new Map<string, number>();
  for (const point of passed) counts.set(point, (counts.get(point) ?? 0) + 1);
  return [...counts].flatMap(([point, count]) =>
    [...new Set(INSIDE.test(point) ? [1] : [1, count])].map((passing) => ({ point, passing })),
  );
}

async function dieAndLook(name: string, death: Death, reference: Reference, victims: Victims): Promise<void> {
  const { states } = reference;
  const operation = operations[name] ?? assert.fail(name);
  const path = copyOf(operation.unsearched ? unsearched : template);
  const victim = victims.take();
  const end = await victim.do("perform", path, name, death);
  await victim.kill();
  assert.deepEqual(end, { killed: "SIGKILL", stderr: "" });
  assert.deepEqual(victim.acknowledged, ["before"]);

  const expected = await withStore(path, async (sp) => {
    const left = await takeSnapshot(sp);
    if (!states.includes(left)) assert.equal(left, states.at(-1), "It has happened in part");
    await checkSearch(sp);
    const happened = states.length > 1 && left === states.at(-1);
    const outcome = await outcomeOf(name, sp);
    // An operation that had finished some of its steps repeats all of them.
    if (!happened && left !== states[0]) return takeSnapshot(sp);
    assert.equal(outcome, happened ? reference.again.outcome : reference.outcome, "The outcome of doing it again");
    return happened ? reference.again.state : states.at(-1);
  });
  await withStore(path, async (sp) => {
    await sp.compact();
    const { sessions, items } = await sp.compact();
    assert.deepEqual({ sessions, items }, { sessions: 0, items: 0 }, "Compacting has left something");
  });
  await withStore(path, async (sp) => {
    assert.equal(await takeSnapshot(sp), expected, "What doing it again, and compacting, leads to");
    // Where nothing else can have changed, the index has.
    if (operation.commits === 0) await checkSearch(sp);
  });
  for (const end of ["", "-wal", "-shm"]) rmSync(path + end, { force: true });
}

async function outcomeOf(name: string, sp: Savepoint): Promise<string> {
  try {
    return toText(await operations[name]?.run(sp));
  } catch (error) {
    if (isSavepointError(error)) return error.code;
    throw error;
  }
}

function toText(outcome: unknown): string {
  return JSON.stringify(outcome ?? null);
}

/** A copy of a file that no process has open. */
function copyOf(path: string, to = join(root, `${files++}.db`)): string {
  for (const end of ["", "-wal"]) if (existsSync(path + end)) copyFileSync(path + end, to + end);
  return to;
}
