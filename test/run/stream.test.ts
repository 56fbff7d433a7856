// The recorded deltas of runs: any process reads them from the beginning and follows them, each part once.
import { describe, expect, it } from "vitest";
import { defineAgent, Savepoint } from "../../src/index.js";
import type { Store } from "../../src/store.js";
import { codeOf, createGate, KINDS, useLab } from "./lab.js";
import { ALL, GO, Reading, Speaker, WORDS } from "./speaker.js";

describe.each(KINDS)("the recorded deltas of a run on $name", (kind) => {
  const lab = useLab(kind);

  it("are replayed and followed by this process and by another one, and end with the run", async () => {
    const [sp, other] = [await lab.open(), await lab.open()];
    const speaker = new Speaker(WORDS);
    const early = new Reading(other);
    speaker.say(2);
    const run = await sp.start(speaker.agent, GO);
    await early.untilText("one two ");
    const [here, late] = [new Reading(sp), new Reading(other)];
    await Promise.all([here.untilText("one two "), late.untilText("one two ")]);
    speaker.say(4);
    for (const reading of [early, here, late]) {
      expect(await reading.ended).toEqual({ status: "completed", reason: undefined });
      expect(reading.text).toBe(ALL);
      expect(reading.resets).toBe(0);
      expect(reading.events.every((event) => event.type === "delta" && event.name === "llm")).toBe(true);
    }
    expect(await run.result()).toMatchObject({ status: "completed", output: ALL });
    // They are still there for a moment, for readers that learn of the end later.
    const afterwards = new Reading(other);
    await afterwards.ended;
    expect(afterwards.text).toBe(ALL);
  });

  it.each([
    { second: WORDS, resets: 0, what: "with the same words are continued" },
    { second: ["one", "zwei"], resets: 1, what: "with other words replace those of the call that was cut off" },
  ])("of a call that is made again $what", async ({ second, resets }) => {
    const [sp, reader] = [await lab.open(), await lab.open()];
    const first = new Speaker(WORDS);
    first.say(2);
    await sp.start(first.agent, GO);
    const live = new Reading(reader);
    await live.untilText("one two ");
    lab.crash();
    const late = new Reading(reader);
    const again = new Speaker(second);
    again.say(1);
    const resumed = await lab.open();
    const [run] = await resumed.recover([again.agent]);
    await late.untilText("one ");
    again.say(second.length);
    await run?.result();
    const all = second.map((word) => `${word} `).join("");
    for (const reading of [live, late]) {
      expect((await reading.ended).status).toBe("completed");
      expect(reading.text).toBe(all);
    }
    expect(live.resets).toBe(resets);
    expect(late.resets).toBe(0);
  });

  it("of recorded replies are kept when the run is resumed, although these calls are not made again", async () => {
    const sp = await lab.open();
    const reached = createGate();
    const create = (word: string, hangs: boolean) =>
      defineAgent({
        name: "two-calls",
        initial: (_input: string) => ({}),
        async step(run) {
          const first = await run.llm(({ emit }) => (emit(`${word} `), word), { name: "a" });
          const second = await run.llm(
            async ({ emit }) => {
              emit(`${word} again `);
              if (!hangs) return word;
              reached.open();
              return new Promise<string>(() => {});
            },
            { name: "b" },
          );
          return run.complete([first, second]);
        },
      });
    await sp.start(create("first", true), GO);
    await reached.promise;
    const live = new Reading(await lab.open());
    await live.untilText("first first again ");
    lab.crash();
    const [run] = await (await lab.open()).recover([create("second", false)]);
    expect(await run?.result()).toMatchObject({ output: ["first", "second"] });
    await live.ended;
    expect(live.text).toBe("first second again ");
    expect(live.resets).toBe(1);
  });

  it("of a call that fails and is tried again in the same process are replaced", async () => {
    const sp = await lab.open();
    let calls = 0;
    const seen = createGate();
    const agent = defineAgent({
      name: "flaky",
      initial: (_input: string) => ({}),
      async step(run) {
        const reply = await run.llm(
          async ({ emit }) => {
            calls++;
            emit(`attempt ${calls} `);
            if (calls > 1) return "done";
            await seen.promise;
            throw Object.assign(new Error("overloaded"), { status: 529 });
          },
          { retry: { attempts: 2, delay: 1 } },
        );
        return run.complete(reply);
      },
    });
    const run = await sp.start(agent, GO);
    const live = new Reading(sp);
    await live.untilText("attempt 1 ");
    seen.open();
    await run.result();
    await live.ended;
    expect(live.text).toBe("attempt 2 ");
    expect(live.resets).toBe(1);
  });

  it("continue after the id of the last event, and start again if the id belongs to other deltas", async () => {
    const sp = await lab.open();
    const speaker = new Speaker(WORDS);
    speaker.say(2);
    const run = await sp.start(speaker.agent, GO);
    const live = new Reading(sp);
    await live.untilText("one two ");
    const after = live.events.at(-1)?.id as string;
    const continued = new Reading(await lab.open(), { after });
    speaker.say(4);
    await run.result();
    await continued.ended;
    expect(continued.text).toBe("three four ");
    expect(continued.resets).toBe(0);
    for (const id of [
      after.replace(/.$/, (last) => (last === "A" ? "B" : "A")),
      "garbage",
      "999999-AAAAAAAAAAAAAAAA",
    ]) {
      const other = new Reading(sp, { after: id });
      await other.ended;
      expect([id, other.resets, other.text]).toEqual([id, 1, ALL]);
    }
    const whole = new Reading(sp, { after: "" });
    await whole.ended;
    expect([whole.resets, whole.text]).toEqual([0, ALL]);
  });

  it("are freed when the turn has ended: on close, and before the next turn", async () => {
    const sp = await lab.open();
    const store = lab.store();
    const speaker = new Speaker(WORDS);
    speaker.say(4);
    await sp.run(speaker.agent, GO);
    expect(await countDeltas(store)).toBeGreaterThan(0);
    await sp.compact();
    expect(await countDeltas(store)).toBe(0);
    const late = new Reading(sp);
    expect(await late.ended).toEqual({ status: "completed", reason: undefined });
    expect(late.events).toEqual([]);
    const next = await sp.start(speaker.agent, { session: "s", input: "again", key: "second" });
    const reading = new Reading(sp);
    await next.result();
    await reading.ended;
    expect(reading.text).toBe(ALL);
    expect(await codeOf(new Reading(sp, { turn: 1, after: reading.events[0]?.id }).ended)).toBe("STREAM_LOST");
  });

  it.each(["held by a process that has crashed", "released"])(
    "are freed when another process cancels a run that was interrupted, %s",
    async (how) => {
      const sp = await lab.open();
      const speaker = new Speaker(WORDS);
      speaker.say(2);
      await sp.start(speaker.agent, GO);
      await new Reading(sp).untilText("one two ");
      lab.crash();
      const other = await lab.open();
      if (how === "released") await (await other.openRun({ session: "s", initial: () => ({}) })).release();
      await other.compact();
      expect(await countDeltas(lab.store())).toBeGreaterThan(0);
      expect(await other.cancel("s", "enough")).toBe(true);
      const late = new Reading(other);
      expect(await late.ended).toEqual({ status: "halted", reason: "cancelled: enough" });
      await other.compact();
      expect(await countDeltas(lab.store())).toBe(0);
    },
  );

  it("are in a bundle of a run in progress, so that it is continued elsewhere", async () => {
    const sp = await lab.open();
    const speaker = new Speaker(WORDS);
    speaker.say(2);
    await sp.start(speaker.agent, GO);
    await new Reading(sp).untilText("one two ");
    const bytes = await (await lab.open()).export({ session: "s" }).bytes();
    const other = await Savepoint.open("memory:");
    await other.import(bytes, { runs: "live" });
    expect(await other.verify({ deep: true })).toMatchObject({ ok: true });
    const again = new Speaker(["one", "zwei"]);
    again.say(1);
    const reading = new Reading(other);
    const [run] = await other.recover([again.agent]);
    await reading.untilText("one ");
    again.say(2);
    await run?.result();
    await reading.ended;
    expect([reading.text, reading.resets]).toEqual(["one zwei ", 0]);
    await other.close();
  });

  it("survive a garbage collection while the run is in progress", async () => {
    const sp = await lab.open();
    const speaker = new Speaker(WORDS);
    speaker.say(2);
    const run = await sp.start(speaker.agent, GO);
    await new Reading(sp).untilText("one two ");
    await (await lab.open()).compact();
    expect(await (await lab.open()).verify({ deep: true })).toMatchObject({ ok: true });
    speaker.say(4);
    const late = new Reading(await lab.open());
    await run.result();
    await late.ended;
    expect(late.text).toBe(ALL);
  });
});

/** The items of recorded deltas. */
async function countDeltas(store: Store): Promise<number> {
  let count = 0;
  // The tapes of deltas have numbers from 2^32 on, which have seven digits in base 36.
  for (const tape of await store.tapes({ from: "1", to: "2" })) {
    if (!tape.slice(2).startsWith("7")) continue;
    const items = await store.items([{ tape, start: 0, count: 50 }]);
    count += items.filter((item) => "json" in item).length;
  }
  return count;
}
