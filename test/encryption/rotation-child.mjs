// What the processes of the rotation tests do: node rotation-child.mjs <name> <json arguments>
import { writeSync } from "node:fs";
import { isSavepointError, Savepoint } from "savepoint";
import { encryptionOf } from "../support/crash-keys.mjs";
import { withTestHooks } from "../support/test-hooks.mjs";

/** @param {object} line */
const acknowledge = (line) => writeSync(1, `${JSON.stringify(line)}\n`);

/** Kills this process at a passing of a point, counted from 0. @param {string | undefined} dieAt */
function probeOf(dieAt) {
  let countdown = dieAt === undefined ? -1 : Number(dieAt.split("@")[1]);
  return (/** @type {string} */ point) => {
    if (dieAt?.startsWith(`${point}@`) && countdown-- === 0) process.kill(process.pid, "SIGKILL");
  };
}

const jobs = {
  /**
   * Saves to one session again and again, and to a new one each time, until it is killed. A ring with only the old key cannot create
   * sessions once the key has been changed: from then on, it saves only to the first one.
   *
   * @param {string} url @param {string} keys @param {string} name
   */
  async save(url, keys, name) {
    const sp = await Savepoint.open(url, { durability: "process", ...encryptionOf(keys) });
    const lane = sp.session(name);
    const latest = await lane.latest();
    let n = /** @type {{ n: number }} */ (latest?.state ?? { n: 0 }).n;
    for (let isAllowed = true; ;) {
      await lane.save({ n: ++n });
      acknowledge({ session: name, n });
      if (!isAllowed) continue;
      try {
        await sp.session(`${name}-${n}`).save({ n });
        acknowledge({ session: `${name}-${n}`, n });
      } catch (error) {
        if (!isSavepointError(error, "WRONG_KEY")) throw error;
        isAllowed = false;
        acknowledge({ refused: name });
      }
    }
  },

  /** Changes the key to the first one of the ring. @param {string} url @param {string} keys @param {string} [dieAt] */
  async rotate(url, keys, dieAt) {
    const hooks = withTestHooks({ probe: probeOf(dieAt) }, { durability: /** @type {const} */ ("process") });
    const sp = await Savepoint.open(url, { ...hooks, ...encryptionOf(keys) });
    acknowledge({ rotated: await sp.rekey() });
    await sp.close();
  },

  /** Encrypts a plain store. @param {string} url @param {string} keys @param {string} [dieAt] */
  async encrypt(url, keys, dieAt) {
    const hooks = withTestHooks({ probe: probeOf(dieAt) }, { durability: /** @type {const} */ ("process") });
    const sp = await Savepoint.open(url, hooks);
    const to = encryptionOf(keys).encryption;
    if (!to) throw new Error("no key");
    acknowledge({ encrypted: await sp.rekey({ to }) });
    await sp.close();
  },
};

const [, , name, args] = process.argv;
const job = /** @type {(...args: unknown[]) => Promise<void>} */ (jobs[/** @type {keyof typeof jobs} */ (name)]);
await job(...JSON.parse(args ?? "[]"));
process.exit(0);
