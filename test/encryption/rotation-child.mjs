// The jobs of the processes of the rotation tests: node rotation-child.mjs <name> <json arguments>
import { writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { isSavepointError, Savepoint } from "savepoint";
import { encryptionOf } from "../support/crash-keys.mjs";
import { withTestHooks } from "../support/test-hooks.mjs";
import { until } from "../support/until.mjs";

/** @param {object} line */
const acknowledge = (line) => writeSync(1, `${JSON.stringify(line)}\n`);

/**
 * Counts the write points that are passed during a call, and kills this process at one of these passings.
 *
 * @param {string | undefined} dieAt a point and the number of its passing, from 0: `begin@2`
 */
function watchPassings(dieAt) {
  /** @type {Map<string, number>} */
  const passings = new Map();
  let isWatching = false;
  const probe = (/** @type {string} */ point) => {
    if (!isWatching) return;
    const passing = passings.get(point) ?? 0;
    if (dieAt === `${point}@${passing}`) process.kill(process.pid, "SIGKILL");
    passings.set(point, passing + 1);
  };
  /** @param {() => Promise<unknown>} call */
  const during = async (call) => {
    isWatching = true;
    await call();
    isWatching = false;
    acknowledge({ passings: Object.fromEntries(passings) });
  };
  return { options: withTestHooks({ probe }, { durability: /** @type {const} */ ("process") }), during };
}

/** The lines that the test writes to this process, parsed. @type {unknown[]} */
const commands = [];

function readCommands() {
  let text = "";
  process.stdin.setEncoding("utf8").on("data", (part) => {
    const lines = (text + part).split("\n");
    text = lines.pop() ?? "";
    commands.push(...lines.map((line) => JSON.parse(line)));
  });
}

/** The code of the error of a call; `undefined` if it succeeds. @param {Promise<unknown>} call */
async function codeOf(call) {
  try {
    await call;
    return undefined;
  } catch (error) {
    if (!isSavepointError(error, "WRONG_KEY")) throw error;
    return error.code;
  }
}

const jobs = {
  /**
   * Saves to one session again and again until it is killed, and obeys commands: `{ create: ids }` creates sessions, `{ read: id }` reads
   * one, `{ rekey: true }` changes the key, `{ pause: true }` waits for the next command.
   *
   * @param {string} url @param {string} keys @param {string} name
   */
  async write(url, keys, name) {
    readCommands();
    const sp = await Savepoint.open(url, { durability: "process", ...encryptionOf(keys) });
    const lane = sp.session(name);
    for (let n = 1; ; n++) {
      await lane.save({ n });
      acknowledge({ session: name, n });
      const { create, read, rekey, pause } =
        /** @type {{ create?: string[], read?: string, rekey?: true, pause?: true }} */ (commands.shift() ?? {});
      for (const session of create ?? []) {
        const code = await codeOf(sp.session(session).save({ n }));
        acknowledge(code ? { refused: session, code } : { session, n });
      }
      if (read !== undefined) acknowledge({ read, code: await codeOf(sp.session(read).latest()) });
      if (rekey) acknowledge({ rekey, code: await codeOf(sp.rekey()) });
      if (pause) {
        acknowledge({ pause });
        await until(() => commands.length > 0, "the next command");
      }
      // Other processes need time to commit.
      await sleep(1);
    }
  },

  /**
   * Changes the key to the first one of the ring when it gets a command, and reports how often each write point was passed.
   *
   * @param {string} url @param {string} keys @param {string} [dieAt] a passing during the change
   */
  async rotateOnCommand(url, keys, dieAt) {
    readCommands();
    const { options, during } = watchPassings(dieAt);
    const sp = await Savepoint.open(url, { ...options, ...encryptionOf(keys) });
    acknowledge({ ready: true });
    await until(() => commands.length > 0, "the command to change the key");
    await during(() => sp.rekey());
    await sp.close();
  },

  /** Encrypts a plain store. @param {string} url @param {string} keys @param {string} [dieAt] */
  async encrypt(url, keys, dieAt) {
    const { options, during } = watchPassings(dieAt);
    const sp = await Savepoint.open(url, options);
    const to = encryptionOf(keys).encryption;
    if (!to) throw new Error("no key");
    await during(() => sp.rekey({ to }));
    await sp.close();
  },

  /** Opens a store, which completes an interrupted encryption. @param {string} url @param {string} keys @param {string} [dieAt] */
  async complete(url, keys, dieAt) {
    const { options, during } = watchPassings(dieAt);
    await during(async () => (await Savepoint.open(url, { ...options, ...encryptionOf(keys) })).close());
  },
};

const [, , name, args] = process.argv;
const job = /** @type {(...args: unknown[]) => Promise<void>} */ (jobs[/** @type {keyof typeof jobs} */ (name)]);
await job(...JSON.parse(args ?? "[]"));
process.exit(0);
