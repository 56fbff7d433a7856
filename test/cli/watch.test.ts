/** Following sessions as they go on. */
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import type { Savepoint } from "../../src/index.js";
import { linesOf } from "./command.js";
import { createPlace, Place } from "./place.js";

interface Seen {
  readonly session: string;
  readonly type: string;
  readonly status?: string;
  readonly checkpoint?: { readonly seq: number };
}

const parse = (text: string): Seen[] => linesOf(text).map((line) => JSON.parse(line) as Seen);

describe.concurrent("watch", () => {
  it("tells how a session stands, then what is saved, and ends when the work is over", async (test) => {
    const place = createPlace(test);
    const sp = await place.open();
    await sp.session("s").save({ n: 0 });
    await sp.session("s").save({ n: 1 });
    const watching = place.startOn(["watch", "s", "--jsonl"]);
    await watching.seen('"status":"running"');
    await sp.session("s").save({ n: 2 });
    await sp.session("s").save({ n: 3 }, { status: "completed" });
    const { code, stdout, stderr } = await watching.ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(parse(stdout).map(({ type, status, checkpoint }) => status ?? `${type} ${checkpoint?.seq}`)).toEqual([
      "checkpoint 1",
      "running",
      "checkpoint 2",
      "checkpoint 3",
      "completed",
    ]);
  });

  it("prints a line each for people, and ends at once where the work is over", async (test) => {
    const place = await createPlace(test).fill((sp) =>
      sp.session("s").save({}, { status: "failed", reason: "no\u001b[31m money" }),
    );
    const { stdout, code } = await place.on(["watch", "s"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^\S{8} {2}#0 {2}step 0 {2}failed .*\nfailed {2}no\\u001b\[31m money\n$/);
  });

  it.each(["SIGINT", "SIGTERM"] as const)("ends with 130 when its process gets %s, and says so", async (signal) => {
    const place = await new Place().fill((sp) => sp.session("s").save({}));
    try {
      const watching = place.spawnOn(["watch", "s"]);
      await watching.seen("\n");
      watching.child.kill(signal);
      expect(await watching.ended).toMatchObject({ code: 130, stderr: expect.stringMatching(/Interrupted/) });
    } finally {
      await place.end();
    }
  });

  it("tells what is new in any session", async (test) => {
    const place = createPlace(test);
    const sp = await place.open();
    await sp.session("before").save({});
    const watching = place.startOn(["watch", "--json"]);
    await saveUntil(sp, "after", watching.seen("\n"));
    watching.interrupt();
    const { code, stdout } = await watching.ended;
    const [first] = parse(stdout);
    expect(first).toMatchObject({ session: "after", type: "checkpoint" });
    expect(parse(stdout).some(({ session }) => session === "before")).toBe(false);
    expect(code).toBe(130);
  });

  it("ends when nobody reads any more what its process prints", async (test) => {
    const place = createPlace(test);
    const sp = await place.open();
    await sp.session("s").save({});
    const watching = place.spawnOn(["watch", "s", "--jsonl"]);
    await watching.seen("\n");
    watching.child.stdout?.destroy();
    await saveUntil(sp, "s", watching.ended);
    expect((await watching.ended).code).toBe(0);
  });

  it("ends with 4 where there is no such branch", async (test) => {
    const place = await createPlace(test).fill((sp) => sp.session("s").save({}));
    expect((await place.on(["watch", "s", "--branch", "nope"])).code).toBe(4);
  });

  it("tells of a session that was begun anew", async (test) => {
    const place = createPlace(test);
    const sp = await place.open();
    for (let n = 0; n < 5; n++) await sp.session("s").save({ n });
    const watching = place.startOn(["watch", "--jsonl"]);
    await saveUntil(sp, "clock", watching.seen('"session":"clock"'));
    await sp.sessions.delete("s");
    await sp.session("s").save({ anew: true });
    await watching.seen('"session":"s"');
  });
});

/** When a watcher looks cannot be told from outside: something is saved until it has been seen, however busy the machine. */
async function saveUntil(sp: Savepoint, id: string, seen: Promise<unknown>): Promise<void> {
  const isSeen = seen.then(() => true);
  for (let n = 0; !(await Promise.race([isSeen, sleep(100, false)])); n++) await sp.session(id).save({ n });
}
