/** An agent with every kind of effect, killed at every passing of every point. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { Child, Victims } from "./children.js";
import { type Desk, ORDER } from "./clerk.mjs";
import { temporaryFolder } from "./folders.js";
import { Ledger } from "./ledger.js";
import { readRecorded } from "./recorded.js";
import type { Done, Outcome } from "./scenario.mjs";
import { checkSessions } from "./survivors.js";
import type { Death } from "./world.mjs";

const LANES = 2;

/**
 * @param points where in a write the process is killed
 * @param every kills only at every n-th of the points
 */
export function matrixSuite(points: readonly string[], every = 1): void {
  it(
    "an agent reaches the same result wherever it is killed, and executes no recorded effect twice",
    { timeout: 600_000 },
    async () => {
      const root = temporaryFolder();
      const reference = await play(root, "reference", undefined, "run");
      const deaths = enumerateDeaths(reference.outcome, points).filter((_, index) => index % every === 0);
      const counts = { reached: 0, interrupted: 0 };
      const queue = deaths.entries();
      const failures: string[] = [];
      const work = async (): Promise<void> => {
        const [victims, resumer] = [new Victims(), new Child()];
        for (const [index, death] of queue) {
          const by = index % 2 === 0 ? "run" : "recover";
          try {
            const { killed, interrupted } = await dieAndResume(root, death, by, reference.outcome, victims, resumer);
            counts.reached += Number(killed);
            counts.interrupted += interrupted;
          } catch (error) {
            failures.push(`killed at "${death.point}", passing ${death.passing}, resumed by ${by}: ${String(error)}`);
          }
        }
        await Promise.all([victims.close(), resumer.kill()]);
      };
      await Promise.all(Array.from({ length: LANES }, work));
      expect(failures).toEqual([]);
      // How commits are grouped depends on timing: the last few points may not be passed a second time, and in a small
      // sample of points these may be the majority.
      expect(counts.reached).toBeGreaterThan(every === 1 ? deaths.length * 0.75 : 0);
      if (every === 1) expect(counts.interrupted).toBeGreaterThan(ORDER.flat().length);
    },
  );
}

/** Every passing of every point. */
function enumerateDeaths({ passed }: Outcome, points: readonly string[]): Death[] {
  return passed.flatMap(([point, count]) => {
    const wanted = points.includes(point) || point.includes("/");
    return wanted ? Array.from({ length: count }, (_, index) => ({ point, passing: index + 1 })) : [];
  });
}

/** Plays the scenario in a new child without killing it. */
async function play(root: string, name: string, death: Death | undefined, by: string): Promise<{ outcome: Outcome }> {
  const folder = mkdtempSync(join(root, `${name}-`));
  const child = new Child();
  const end = await child.do("playScenario", folder, by, death);
  await child.kill();
  assert.ok("done" in end, JSON.stringify(end));
  const outcome = end.done as Outcome;
  checkOutcome(new Ledger(folder), outcome, outcome);
  await checkSessions(folder);
  return { outcome };
}

async function dieAndResume(
  root: string,
  death: Death,
  by: string,
  reference: Outcome,
  victims: Victims,
  resumer: Child,
): Promise<{ killed: boolean; interrupted: number }> {
  const folder = mkdtempSync(join(root, "killed-"));
  const ledger = new Ledger(folder);
  const victim = victims.take();
  let end = await victim.do("playScenario", folder, "run", death);
  const killed = "killed" in end;
  if ("killed" in end) {
    assert.deepEqual(end, { killed: "SIGKILL", stderr: "" });
    ledger.noteKill(await readRecorded(folder));
    end = await resumer.do("playScenario", folder, by);
  } else await victim.kill();
  assert.ok("done" in end, JSON.stringify(end));
  checkOutcome(ledger, end.done as Outcome, reference);
  await checkSessions(folder);
  const interrupted = ledger.interrupted().length;
  rmSync(folder, { recursive: true, force: true });
  return { killed, interrupted };
}

function checkOutcome(ledger: Ledger, outcome: Outcome, reference: Outcome): void {
  const names = ORDER.flat();
  const ofFirst = names.filter((name) => name.startsWith("t1-"));
  const [main, fork] = [outcome.turns.at(-1)?.state as Desk, outcome.fork.state];
  ledger.check("job/main", names, main.results);
  const ofFork = ofFirst.filter((name) => !outcome.inherited.includes(name));
  ledger.check("job/what-if", ofFork, fork.results);
  for (const [turn, done] of outcome.turns.entries())
    expect(comparable(done)).toEqual(comparable(reference.turns[turn]));
  expect(comparable(outcome.fork)).toEqual(comparable(reference.fork));
  // Random values are drawn once: all turns have those of the first turn.
  for (const { state } of outcome.turns) expect(state.chance).toEqual(main.chance);
  if (outcome.inherited.includes("t1-plan")) expect(fork.chance).toEqual(main.chance);
  expect(outcome.left).toBe(0);
}

/** A result without its random values. */
function comparable(done: Done | undefined): object {
  assert.ok(done);
  const { chance, arrivals, results, ...state } = done.state;
  assert.ok(chance);
  const failed = results["t1-fail"] === "OUTCOME_UNKNOWN" ? "result of t1-fail" : results["t1-fail"];
  return { ...done, state: { ...state, arrivals: [...arrivals].sort(), results: { ...results, "t1-fail": failed } } };
}
