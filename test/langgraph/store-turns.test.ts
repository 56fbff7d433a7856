// Processes that put into one namespace of a SavepointStore without any pause.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { SavepointStore } from "../../src/integrations/langgraph/index.js";
import { queueNameOf } from "../../src/integrations/langgraph/store/turn-queue.js";
import { until } from "../support/until.mjs";
import { DURABLE_STORES, useStore } from "./durable-stores.js";

const PROGRAM = fileURLToPath(new URL("./unpaused-writer.mjs", import.meta.url));
/** The session that exists while processes wait for their turns. */
const QUEUE = "memory%turns";

interface Writer {
  /** The number of acknowledged puts. */
  readonly puts: () => number;
  readonly kill: () => Promise<void>;
}

function startWriter(url: string, name: string): Writer {
  const child = spawn(process.execPath, [PROGRAM, url, name], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  let puts = 0;
  child.stdout.on("data", (dots: Buffer) => (puts += dots.length));
  return {
    puts: () => puts,
    async kill() {
      child.kill("SIGKILL");
      if (child.signalCode === null) await once(child, "close");
    },
  };
}

describe.each(DURABLE_STORES)("processes that put without a pause on $name", (kind) => {
  const lab = useStore(kind);

  it("each get a share of the puts, also after one of them was killed, and delete the queue at the end", async () => {
    // A process whose put conflicts reads all these items before its next attempt.
    const sp = await lab.open();
    const store = new SavepointStore(sp);
    await store.batch(
      Array.from({ length: 3000 }, (_, n) => ({ namespace: ["shared"], key: `k${n}`, value: { n, text: "text" } })),
    );
    const writers = ["x", "y", "z"].map((name) => startWriter(lab.url, name));
    const counts = (): number[] => writers.map(({ puts }) => puts());
    const total = (): number => counts().reduce((sum, count) => sum + count, 0);
    const share = 1 / (4 * writers.length);
    await until(
      () => total() >= 500 && Math.min(...counts()) >= share * total(),
      () => `the share of each process, after ${counts().join(", ")} puts`,
      60_000,
    );
    expect(total()).toBeLessThan(50_000);

    // The queue of waiting processes is a session, but not a namespace.
    await until(async () => (await sp.sessions.load(QUEUE)) !== undefined, "a process that waits");
    expect(await store.listNamespaces()).toEqual([["shared"]]);
    expect((await store.search([], { limit: 5000 })).filter(({ namespace }) => namespace[0] !== "shared")).toEqual([]);
    const below = await sp.sessions.list({ prefix: "memory/" }).all();
    expect(below.map(({ id }) => id)).toEqual(["memory/shared"]);

    for (const killed of writers.slice(0, 2)) {
      await killed.kill();
      const others = writers.slice(writers.indexOf(killed) + 1);
      const before = others.map(({ puts }) => puts());
      await until(
        () => others.every(({ puts }, index) => puts() >= (before[index] ?? 0) + 20),
        "the puts of the others",
      );
    }
    await until(async () => (await sp.sessions.load(QUEUE)) === undefined, "the end of the queue");
    const sessions = await sp.sessions.list().all();
    expect(sessions.map(({ id }) => id)).toEqual(["memory/shared"]);
    await Promise.all(writers.map(({ kill }) => kill()));
  }, 180_000);

  it("do not wait for a process that has ended, or for annotations of another program in the session of their queue", async () => {
    const [sp, other] = [await lab.open(), await lab.open()];
    const [mine, theirs] = [new SavepointStore(sp), new SavepointStore(other)];
    await mine.put(["shared"], "k", { n: 1 });
    const queue = sp.session(QUEUE, { agent: "memory" });
    const { id } = await queue.save({ any: "state" });
    const ended = `${queueNameOf("memory/shared")}/a-process`;
    await queue.annotate(id, ended, () => ({ ticket: 1, needs: 0 }));
    await queue.annotate(id, "no entry", () => [1]);
    await queue.annotate(id, `${ended}-2`, () => ({ ticket: "1", needs: Number.NaN }));
    // The second put of a process conflicts with that of the other one, and a process reads the queue after a conflict.
    await theirs.put(["shared"], "k", { n: 2 });
    await mine.put(["shared"], "k", { n: 3 });
    expect((await theirs.get(["shared"], "k"))?.value).toEqual({ n: 3 });
    const names = async (): Promise<string[]> =>
      [...(await queue.annotations(0, 1000)).values()].flatMap((values) => [...values.keys()]);
    await until(async () => !(await names()).includes(ended), "the end of the entry");
    // The session is not deleted, because it was not created for the queue.
    expect((await sp.session(QUEUE).latest())?.state).toEqual({ any: "state" });
  });
});
