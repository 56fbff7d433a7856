/** `kill -9`, again and again, while a process saves as fast as it can. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { chooseSeed } from "../support/seed.js";
import { startChild } from "./children.js";
import { Survivors } from "./survivors.js";
import { seeded } from "./workload.mjs";

const CHECK_EVERY = 20;

/**
 * Kills a process that saves, at random and at every point of a write.
 *
 * @param kills how often it is killed at random
 * @param points with how often each is passed before the process dies
 */
export function killSuite(
  temporaryStore: () => string,
  kills: number,
  points: ReadonlyMap<string, readonly number[]>,
): void {
  it(
    `loses nothing that it acknowledged when it is killed ${kills} times at random`,
    { timeout: 240_000 },
    async () => {
      const survivors = new Survivors(temporaryStore());
      const seed = chooseSeed();
      const random = seeded(seed);
      for (let kill = 1; kill <= kills; kill++) {
        const { child, started, ended } = startChild("saveForever", survivors.url, random(2 ** 30));
        await started;
        // Deliberately a random time: it is killed at any moment.
        await sleep(random(30));
        child.kill("SIGKILL");
        const { lines, signal, stderr } = await ended;
        expect({ signal, stderr }).toEqual({ signal: "SIGKILL", stderr: "" });
        survivors.note(lines);
        if (kill % CHECK_EVERY === 0) await survivors.check({ all: kill === kills });
      }
      expect(survivors.count).toBeGreaterThan(kills);
    },
  );

  it.each([...points])("loses nothing when it is killed at the point %s", async (point, passings) => {
    const survivors = new Survivors(temporaryStore());
    for (const passing of passings) {
      const { ended } = startChild("saveForever", survivors.url, passing + 1, `${point}@${passing}`);
      const { lines, signal, stderr } = await ended;
      expect({ signal, stderr }).toEqual({ signal: "SIGKILL", stderr: "" });
      survivors.note(lines);
      await survivors.check({ all: false });
    }
  });
}
