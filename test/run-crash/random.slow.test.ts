import assert from "node:assert/strict";
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { seeded } from "../crash/workload.mjs";
import { chooseSeed } from "../support/seed.js";
import { Child, Victims } from "./children.js";
import { type Desk, ORDER } from "./clerk.mjs";
import { temporaryFolder } from "./folders.js";
import { Ledger } from "./ledger.js";
import { readRecorded } from "./recorded.js";
import { answerTo } from "./scenario.mjs";
import { checkSessions } from "./survivors.js";
import { World } from "./world.mjs";

const KILLS = 200;
/** Each has a store of its own. */
const LANES = 2;
/** The longest time before a process is killed, in milliseconds: about the duration of a session. */
const LONGEST = 250;

describe("an agent that runs in one session after another", () => {
  it(
    `completes every session although its process is killed ${KILLS} times at random`,
    { timeout: 600_000 },
    async () => {
      const seed = chooseSeed();
      const root = temporaryFolder();
      const lanes = Array.from({ length: LANES }, (_, lane) =>
        killAndRecover(mkdtempSync(join(root, "lane-")), seed + lane),
      );
      const counts = await Promise.all(lanes);
      const [sessions, interrupted] = [
        sum(counts.map((count) => count.sessions)),
        sum(counts.map((count) => count.interrupted)),
      ];
      expect(sessions).toBeGreaterThan(0);
      expect(interrupted).toBeGreaterThan(0);
    },
  );
});

async function killAndRecover(folder: string, seed: number): Promise<{ sessions: number; interrupted: number }> {
  const random = seeded(seed);
  const [ledger, victims] = [new Ledger(folder), new Victims()];
  const completed = new Set<string>();
  for (let kill = 0; kill < KILLS / LANES; kill++) {
    const victim = victims.take();
    const ended = victim.do("workForever", folder, kill);
    await victim.begun();
    // Deliberately a random time: it is killed at any moment.
    await sleep(random(LONGEST * 1000) / 1000);
    await victim.kill();
    expect(await ended).toEqual({ killed: "SIGKILL", stderr: "" });
    ledger.noteKill(await readRecorded(folder));
    await answerAll(folder, completed);
  }
  await victims.close();
  await finish(folder, completed);
  await checkSessions(folder);
  await checkEffects(folder, ledger);
  return { sessions: completed.size, interrupted: ledger.interrupted().length };
}

/** Answers all questions and notes completed sessions. Returns the number of sessions that are not completed. */
async function answerAll(folder: string, completed: Set<string>): Promise<number> {
  const world = new World(folder);
  await using sp = await Savepoint.open(world.url);
  let open = 0;
  for await (const { id, status } of sp.sessions.list()) {
    if (completed.has(id)) continue;
    const isOver = status === "completed" && (await sp.session<Desk>(id).latest())?.state.turn === 2;
    if (isOver) completed.add(id);
    else open++;
    if (status !== "waiting") continue;
    for await (const event of sp.watch(id)) {
      if (event.type !== "status") continue;
      const { question } = event;
      if (question) await sp.answer(id, answerTo(world, id, "main", question), { question: question.id });
      break;
    }
  }
  return open;
}

/** Resumes all sessions without killing a process. */
async function finish(folder: string, completed: Set<string>): Promise<void> {
  const child = new Child();
  for (let tries = 0; (await answerAll(folder, completed)) > 0; tries++) {
    assert.ok(tries < 50, "some sessions never come to their end");
    await leaveSecond(folder);
    const end = await child.do("workForever", folder, -1, true);
    assert.ok("done" in end, JSON.stringify(end));
  }
  await child.kill();
}

/** Sends the second input if the process was killed before it could send it; otherwise nothing happens. */
async function leaveSecond(folder: string): Promise<void> {
  await using sp = await Savepoint.open(new World(folder).url);
  for await (const { id } of sp.sessions.list()) await sp.send(id, { order: "two" }, { key: "two" });
}

async function checkEffects(folder: string, ledger: Ledger): Promise<void> {
  const names = ORDER.flat().filter((name) => !name.startsWith("t3-"));
  await using sp = await Savepoint.open(new World(folder).url);
  for await (const { id } of sp.sessions.list()) {
    const { state, usage } = (await sp.session<Desk>(id).latest()) ?? {};
    ledger.check(`${id}/main`, names, state?.results ?? {});
    expect(usage, `What ${id} has used`).toEqual({ tokens: 40, cost: 4 });
    expect(Object.keys(state?.results ?? {}).sort()).toEqual([...names, "answer"].sort());
  }
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0);
}
