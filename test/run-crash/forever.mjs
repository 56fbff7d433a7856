// Runs the agent over and over in new sessions until it is killed. First it resumes the sessions that the previous process left.
import { writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { createClerk } from "./clerk.mjs";
import { openStore, recoverAll } from "./scenario.mjs";
import { World } from "./world.mjs";

/**
 * @param {string} folder @param {number} generation names its sessions
 * @param {boolean} [last] only resumes unfinished sessions, and exits when there are none
 */
export async function workForever(folder, generation, last = false) {
  const world = new World(folder);
  const clerk = createClerk(world);
  const sp = await openStore(world);
  writeSync(1, `${JSON.stringify({ begun: generation })}\n`);
  await recoverAll(sp, clerk);
  for (let n = 0; !last; n++) {
    const session = `job-${generation}-${n}`;
    await sp.run(clerk, { session, input: { order: "one" }, key: "one" });
    await sp.send(session, { order: "two" }, { key: "two" });
    // Deliberately a time: the process is killed at any moment.
    await sleep(3);
    await recoverAll(sp, clerk);
  }
  await sp.close();
  return {};
}
