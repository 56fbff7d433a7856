// How streams of recorded deltas end, what they may contain, and server-sent events.
import { describe, expect, it } from "vitest";
import { defineAgent, toEventStream } from "../../src/index.js";
import { parsePlace } from "../../src/runs/streams/fingerprint.js";
import { codeOf, openLab } from "./lab.js";
import { GO, Reading, Speaker, WORDS } from "./speaker.js";

describe("the recorded deltas of a run", () => {
  it("end when the run waits for a person, when the session is deleted, and when the reader stops", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    const asking = defineAgent({
      name: "asking",
      initial: (_input: string) => ({}),
      async step(run) {
        await run.llm(({ emit }) => (emit("think "), "thought"));
        return run.complete(await run.ask("Well?"));
      },
    });
    const waiting = new Reading(sp);
    await sp.run(asking, GO);
    expect(await waiting.ended).toMatchObject({ status: "waiting", reason: "Well?" });
    expect(waiting.text).toBe("think ");
    await sp.answer("s", "yes");
    expect(await sp.run(asking, { session: "s" })).toMatchObject({ status: "completed", output: "yes" });

    const speaker = new Speaker(WORDS);
    speaker.say(1);
    await sp.start(speaker.agent, { session: "t", input: "go" });
    const [deleted, stop] = [new Reading(sp, {}, "t"), new AbortController()];
    const stopped = new Reading(sp, { signal: stop.signal }, "t");
    await Promise.all([deleted.untilText("one "), stopped.untilText("one ")]);
    stop.abort();
    expect(await stopped.ended).toEqual({ status: "running", reason: undefined });
    const cancelled = sp.cancel("t", "enough");
    speaker.say(4);
    await cancelled;
    expect(await deleted.ended).toEqual({ status: "halted", reason: "cancelled: enough" });
    const gone = new Reading(sp, { turn: 1 }, "t");
    await sp.sessions.delete("t");
    await gone.ended;
    await sp.close();
    expect(await codeOf(Promise.resolve().then(() => sp.stream("s").next()))).toBe("CLOSED");
  });

  it("end after the patience if no process resumes an interrupted run, with what it has recorded", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    const speaker = new Speaker(WORDS);
    speaker.say(2);
    await sp.start(speaker.agent, GO);
    await new Reading(sp).untilText("one two ");
    lab.crash();
    const reading = new Reading(await lab.open(), { patience: 100 });
    expect(await reading.ended).toEqual({ status: "interrupted", reason: undefined });
    expect(reading.text).toBe("one two ");
  });

  it("may be any values that a state may contain; other values are skipped and reported", async (context) => {
    const lab = await openLab(context);
    const failures: string[] = [];
    const sp = await lab.open({ on: { backgroundFailure: ({ message }) => void failures.push(message) } });
    const deltas = [{ $: 1 }, new Date(5), new Map([["a", 1n]]), { $: ["x"] }, "\u0000\ud800", null, { text: "a" }];
    const agent = defineAgent({
      name: "any",
      initial: (_input: string) => ({}),
      async step(run) {
        await run.llm(({ emit }) => {
          for (const delta of [deltas[0], () => {}, ...deltas.slice(1)]) emit(delta);
          return "done";
        });
        return run.complete();
      },
    });
    await sp.run(agent, GO);
    const reading = new Reading(await lab.open());
    await reading.ended;
    expect(reading.events.map((event) => event.type === "delta" && event.delta)).toEqual(deltas);
    const sent = await new Response(toEventStream(sp.stream("s"))).text();
    expect(sent).toContain('"delta":[["a","1"]]');
    expect(sent).toContain('"delta":{"$":["x"]}');
    expect(failures).toHaveLength(1);
    expect(failures[0]).toContain("cannot be stored");
  });

  it("are bounded: of a turn with too many, readers get an error, and the run completes", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    const part = "x".repeat(2 ** 20);
    const agent = defineAgent({
      name: "long",
      initial: (_input: string) => ({}),
      async step(run) {
        await run.llm(async ({ emit }) => {
          for (let index = 0; index < 40; index++) {
            emit(part);
            await new Promise((resolve) => setImmediate(resolve));
          }
          return "done";
        });
        return run.complete("done");
      },
    });
    const reading = new Reading(sp);
    expect(await sp.run(agent, GO)).toMatchObject({ status: "completed" });
    expect(await codeOf(reading.ended)).toBe("STREAM_LOST");
    expect(reading.text.length).toBeLessThanOrEqual(16 * 2 ** 20);
    expect(await sp.bytes()).toBeLessThan(20 * 2 ** 20);
  });

  it("are server-sent events with ids, kept alive by comments", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    const speaker = new Speaker(WORDS);
    speaker.say(2);
    const run = await sp.start(speaker.agent, GO);
    const reader = toEventStream(sp.stream("s"), { keepAlive: 5 }).pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    const readUntil = async (part: string): Promise<void> => {
      while (!text.includes(part)) {
        const { done, value } = await reader.read();
        if (done) throw new Error(`It ended without ${part}: ${text}`);
        text += value;
      }
    };
    await readUntil("two ");
    await readUntil(": waiting\n\n");
    speaker.say(4);
    await run.result();
    await readUntil("event: end");
    text = text.replaceAll(": waiting\n\n", "");
    expect(text).toMatch(/^id: \d+-[\w-]{16}\nevent: delta\ndata: \{"name":"llm","delta":"one /);
    expect(text).toMatch(/\n\nid:\nevent: end\ndata: \{"status":"completed"\}\n\n$/);
    const id = /id: (\S+)/.exec(text)?.[1] as string;
    expect(parsePlace(id)).toBeDefined();
    expect((await reader.read()).done).toBe(true);
    const cancelled = toEventStream(sp.stream("s", { after: id }));
    await cancelled.cancel();
  });
});
