import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { WRITE_POINTS } from "../../src/store/sqlite/options.js";
import { type Ended, startChild, temporaryStore } from "./children.js";
import { hashOf } from "./workload.mjs";

const KILLS = 100;

describe("a process that saves as fast as it can", () => {
  it(
    `loses nothing that it acknowledged when it is killed ${KILLS} times at random`,
    { timeout: 240_000 },
    async () => {
      const url = temporaryStore();
      const acknowledged = new Map<string, Acknowledged>();
      const seed = Date.now() % 1e6;
      console.log(`kill seed ${seed}`);
      for (let kill = 0; kill < KILLS; kill++) {
        const { child, ended } = startChild("saveForever", url, seed + kill);
        await new Promise((resolve) => child.stdout?.once("data", resolve));
        await sleep((seed * (kill + 1) * 7919) % 60);
        child.kill("SIGKILL");
        note(await ended, acknowledged);
        await expectSaved(url, acknowledged, kill === KILLS - 1);
      }
      expect(acknowledged.size).toBeGreaterThan(KILLS);
    },
  );

  it.each(WRITE_POINTS)("loses nothing when it is killed at the point %s", async (point) => {
    const url = temporaryStore();
    const acknowledged = new Map<string, Acknowledged>();
    for (const passing of point.startsWith("seal") ? [0, 2, 5] : [0, 1, 40]) {
      const { ended } = startChild("saveForever", url, passing + 1, `${point}@${passing}`);
      const result = await ended;
      expect(result.signal, result.stderr).toBe("SIGKILL");
      note(result, acknowledged);
      await expectSaved(url, acknowledged, true);
    }
  });
});

interface Acknowledged {
  readonly session: string;
  readonly id: string;
  readonly seq: number;
  readonly hash: string;
}

function note(ended: Ended, acknowledged: Map<string, Acknowledged>): void {
  expect(ended.stderr).toBe("");
  for (const line of ended.lines as unknown as Acknowledged[]) acknowledged.set(line.id, line);
}

/** What was acknowledged is there and is what was saved; with `all`, every other checkpoint loads as well. */
async function expectSaved(url: string, acknowledged: ReadonlyMap<string, Acknowledged>, all: boolean): Promise<void> {
  const sp = await Savepoint.open(url);
  const problems: string[] = [];
  sp.on("damage", (event) => problems.push(event.reason));
  const recent = all ? [...acknowledged.values()] : [...acknowledged.values()].slice(-20);
  for (const { session, id, seq, hash } of recent) {
    const found = await sp.session(session).load(id);
    if (found?.seq !== seq || hashOf(found.state) !== hash)
      problems.push(`${session}#${seq} (${id}) is not what was saved`);
  }
  for await (const { id } of sp.sessions.list()) {
    const history = await sp.session(id).history({ allBranches: true, order: "oldest" }).all();
    const gaps = history.filter((info, index) => info.seq !== index);
    if (gaps.length > 0) problems.push(`${id} has gaps: ${gaps.map((info) => info.seq).join()}`);
    if (all)
      for (const info of history) if (!(await sp.session(id).load(info.id))) problems.push(`${info.id} does not load`);
  }
  await sp.close();
  expect(problems).toEqual([]);
}
