/** Following sessions with `savepoint watch`. */
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { defineAgent, type Savepoint } from "../../src/index.js";
import { createGate } from "../support/gate.js";
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
  it("watch prints the status, then each checkpoint, and ends when the run ends", async (test) => {
    const place = createPlace(test);
    const sp = await place.open();
    await sp.session("s").save({ n: 0 });
    await sp.session("s").save({ n: 1 });
    const watching = place.startOn(["watch", "s", "--jsonl"]);
    await watching.seen('"status":"open"');
    await sp.session("s").save({ n: 2 });
    await sp.session("s").save({ n: 3 }, { status: "completed" });
    const { code, stdout, stderr } = await watching.ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(parse(stdout).map(({ type, status, checkpoint }) => status ?? `${type} ${checkpoint?.seq}`)).toEqual([
      "checkpoint 1",
      "open",
      "checkpoint 2",
      "checkpoint 3",
      "completed",
    ]);
  });

  it("watch prints the effects and steps of a run with the default strategy, each with its time", async (test) => {
    const place = createPlace(test);
    const sp = await place.open();
    const gate = createGate();
    const agent = defineAgent({
      name: "shop",
      initial: () => ({}),
      async step(run) {
        await run.tool({ id: `c${run.step}`, name: "charge" }, () => (run.step === 1 ? gate.promise : undefined));
        return run.step === 3 ? run.complete("done") : undefined;
      },
    });
    const running = await sp.start(agent, { session: "s", input: undefined });
    const watching = place.startOn(["watch", "s"]);
    await watching.seen("running");
    gate.open();
    await running.result();
    const { stdout } = await watching.ended;
    expect(stdout).toMatch(/^\d\d:\d\d:\d\d {2}tool charge c1 started$/m);
    expect(stdout).toMatch(/^\d\d:\d\d:\d\d {2}step \d completed$/m);
    for (const line of linesOf(stdout)) expect(line).toMatch(/^\d\d:\d\d:\d\d {2}/);
  });

  it("watch prints one line per event and ends at once if the run has ended", async (test) => {
    const place = await createPlace(test).fill((sp) =>
      sp.session("s").save({}, { status: "failed", reason: "no\u001b[31m money" }),
    );
    const { stdout, code } = await place.on(["watch", "s"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^\d\d:\d\d:\d\d {2}\S{8} {2}#0 {2}step 0 {2}failed .*\n\d\d:\d\d:\d\d {2}failed {2}no\\u001b\[31m money\n$/,
    );
  });

  it.each(["SIGINT", "SIGTERM"] as const)(
    "watch exits with 130 and reports it when its process receives %s",
    async (signal) => {
      const place = await new Place().fill((sp) => sp.session("s").save({}));
      try {
        const watching = place.spawnOn(["watch", "s"]);
        await watching.seen("\n");
        watching.child.kill(signal);
        expect(await watching.ended).toMatchObject({ code: 130, stderr: expect.stringMatching(/Interrupted/) });
      } finally {
        await place.end();
      }
    },
  );

  it("watch without a session reports changes of any session", async (test) => {
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

  it("the process of watch ends when its reader closes the pipe", async (test) => {
    const place = createPlace(test);
    const sp = await place.open();
    await sp.session("s").save({});
    const watching = place.spawnOn(["watch", "s", "--jsonl"]);
    await watching.seen("\n");
    watching.child.stdout?.destroy();
    await saveUntil(sp, "s", watching.ended);
    expect((await watching.ended).code).toBe(0);
  });

  it("watch exits with 4 if the branch does not exist", async (test) => {
    const place = await createPlace(test).fill((sp) => sp.session("s").save({}));
    expect((await place.on(["watch", "s", "--branch", "nope"])).code).toBe(4);
  });

  it("watch reports a session that was deleted and started again", async (test) => {
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

/** The polls of a watcher cannot be observed from outside, so this saves until one of the saves was seen. */
async function saveUntil(sp: Savepoint, id: string, seen: Promise<unknown>): Promise<void> {
  const isSeen = seen.then(() => true);
  for (let n = 0; !(await Promise.race([isSeen, sleep(100, false)])); n++) await sp.session(id).save({ n });
}
