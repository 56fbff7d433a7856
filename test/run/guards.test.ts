import { describe, expect, it, vi } from "vitest";
import { defineAgent, type Limits, LoopDetector, type RunEvent } from "../../src/index.js";
import { codeOf, interruptIn, KINDS, transient, useLab, World } from "./lab.js";

const LONG = "I will look at the same file again.";
const GO = { session: "s", input: "go" };

describe("the loop detector", () => {
  it("warns at the third repetition, requests an alternative at the fourth, and halts at the sixth", () => {
    const detector = new LoopDetector();
    expect(Array.from({ length: 7 }, () => detector.check(LONG))).toEqual([
      "none",
      "none",
      "warn",
      "alternative",
      "alternative",
      "halt",
      "halt",
    ]);
  });

  it("compares only the last ten replies", () => {
    const detector = new LoopDetector();
    detector.check(LONG);
    detector.check(LONG);
    for (let index = 0; index < 8; index++) expect(detector.check(`something else, number ${index}`)).toBe("none");
    expect(detector.check(LONG)).toBe("none");
    expect(detector.check(LONG)).toBe("none");
    expect(detector.check(LONG)).toBe("warn");
  });

  it("ignores replies shorter than 20 characters", () => {
    const detector = new LoopDetector();
    for (let index = 0; index < 20; index++) expect(detector.check("x".repeat(19))).toBe("none");
    expect(Array.from({ length: 3 }, () => detector.check("x".repeat(20))).at(-1)).toBe("warn");
  });

  it("ignores whitespace, case, and everything after 500 characters", () => {
    const detector = new LoopDetector();
    detector.check("Look at the file called A");
    detector.check("look   at\nthe file\tCALLED a");
    expect(detector.check("LOOK AT THE FILE CALLED A ")).toBe("warn");
    const start = "y".repeat(500);
    detector.reset();
    detector.check(`${start}1`);
    detector.check(`${start}2`);
    expect(detector.check(`${start}3`)).toBe("warn");
  });

  it("counts the replies it has compared, and forgets them on reset", () => {
    const detector = new LoopDetector();
    for (let index = 0; index < 4; index++) detector.check(LONG);
    detector.check("ok");
    expect(detector.stats()).toEqual({ checked: 5, remembered: 4, distinct: 1, warn: 1, alternative: 1, halt: 0 });
    detector.reset();
    expect(detector.check(LONG)).toBe("none");
    expect(detector.stats()).toMatchObject({ remembered: 1, distinct: 1 });
  });

  it("accepts custom thresholds, and rejects invalid ones", () => {
    const detector = new LoopDetector({ window: 4, threshold: 2, minLength: 1 });
    expect(["a", "a", "a", "a"].map((text) => detector.check(text))).toEqual(["none", "warn", "alternative", "halt"]);
    for (const options of [{ window: 0 }, { threshold: 0 }, { window: 5, threshold: 3 }, { threshold: 1.5 }]) {
      expect(() => new LoopDetector(options), JSON.stringify(options)).toThrow(
        expect.objectContaining({ code: "INVALID_ARGUMENT" }),
      );
    }
  });
});

/** An agent whose model gives the same reply in every step. */
function parrot(world: World, limits: Limits = {}, loop?: false) {
  return defineAgent({
    name: "parrot",
    limits,
    ...(loop === false && { loop }),
    initial: (_input: string) => ({ verdicts: [] as string[] }),
    async step(run) {
      await run.llm(() => world.do("model", { content: LONG, usage: { totalTokens: 10, cost: 0.5 } }));
      run.state.verdicts.push(run.loop);
      await run.effect("pause", () => world.do(`pause ${run.step}`));
      if (run.step === 12) return run.complete("through");
      return undefined;
    },
  });
}

describe.each(KINDS)("guards on $name", (kind) => {
  const lab = useLab(kind);

  it("halt a model that repeats itself, and count repetitions across interruptions", async () => {
    const world = new World();
    const events: RunEvent[] = [];
    await interruptIn(lab, await lab.open(), parrot(world), "go", world, "pause 2");
    const sp = await lab.open();
    sp.on("run", (event) => void events.push(event));
    const result = await sp.run(parrot(world), GO);
    expect(result.status).toBe("halted");
    expect(world.count("model")).toBe(6);
    expect(result.state.verdicts.slice(0, 5)).toEqual(["none", "none", "warn", "alternative", "alternative"]);
    expect(events.flatMap((event) => (event.type === "loop" ? [event.verdict] : []))).toEqual([
      "warn",
      "alternative",
      "alternative",
      "halt",
    ]);
    expect(await sp.run(parrot(world), GO)).toMatchObject({ status: "halted" });
    expect(world.count("model")).toBe(6);
  });

  it("let a model repeat itself if the agent turns the loop detector off", async () => {
    const result = await (await lab.open()).run(parrot(new World(), {}, false), GO);
    expect(result).toMatchObject({ status: "completed", steps: 12 });
  });

  it("halt a run at its limit of steps, and count steps across interruptions", async () => {
    const world = new World();
    const agent = parrot(world, { steps: 3 }, false);
    await interruptIn(lab, await lab.open(), agent, "go", world, "pause 2");
    const result = await (await lab.open()).run(agent, GO);
    expect(result).toMatchObject({ status: "halted", steps: 3 });
    expect(result.reason).toContain("3 steps");
    expect(world.count("model")).toBe(3);
    // With a higher limit it resumes.
    const more = await (await lab.open()).run(parrot(world, { steps: 5 }, false), { ...GO, resume: true });
    expect(more).toMatchObject({ status: "halted", steps: 5 });
  });

  it.each([
    ["tokens", { tokens: 40 }],
    ["cost", { cost: 2 }],
  ] as const)("halt at the limit of %s, also across interruptions", async (name, limits) => {
    const world = new World();
    const agent = parrot(world, limits, false);
    await interruptIn(lab, await lab.open(), agent, "go", world, "pause 2");
    const result = await (await lab.open()).run(agent, GO);
    expect(result).toMatchObject({ status: "halted", usage: { tokens: 40, cost: 2 } });
    expect(result.reason).toContain(name);
    expect(world.count("model")).toBe(4);
  });

  it("halt a run in the middle of a step, before the next model call, and resume there", async () => {
    const world = new World();
    const agent = (tokens: number) =>
      defineAgent({
        name: "a",
        limits: { tokens },
        initial: (_input: string) => ({}),
        async step(run) {
          for (let index = 0; index < 5; index++) await run.llm(() => world.do("model", { usage: { tokens: 10 } }));
          return run.complete("done");
        },
      });
    const sp = await lab.open();
    expect(await sp.run(agent(20), GO)).toMatchObject({ status: "halted", usage: { tokens: 20 } });
    expect(world.count("model")).toBe(2);
    expect(await sp.sessions.load("s")).toMatchObject({ head: { usage: { tokens: 20 } } });
    const result = await sp.run(agent(1000), { ...GO, resume: true });
    expect(result).toMatchObject({ status: "completed", usage: { tokens: 50 } });
    expect(world.count("model")).toBe(5);
  });

  it("a run halts at its limit of time, which counts over restarts", async ({ onTestFinished }) => {
    // Time passes while it works, and at no other moment.
    let time = performance.now();
    const clock = vi.spyOn(performance, "now").mockImplementation(() => time);
    onTestFinished(() => clock.mockRestore());
    const agent = (limit: number) =>
      defineAgent({
        name: "a",
        limits: { time: limit },
        initial: (_input: string) => ({ n: 0 }),
        async step(run) {
          run.state.n++;
          await run.effect("work", () => void (time += 20));
          if (run.state.n % 3 === 0) await run.ask("go on?");
          return undefined;
        },
      });
    const sp = await lab.open();
    let result = await sp.run(agent(150), GO);
    let asked = 0;
    for (; result.status === "waiting"; asked++) {
      await sp.answer("s", "yes");
      result = await (await lab.open()).run(agent(150), GO);
    }
    expect(result.status).toBe("halted");
    expect(result.reason).toContain("150 ms");
    // One attempt alone takes 60 ms: without counting over restarts it would never end.
    expect(asked).toBe(2);
  });

  it("halt a run after three failures in a row, which continues with resume", async () => {
    const world = new World();
    let broken = true;
    const agent = defineAgent({
      name: "a",
      retry: { delay: 0 },
      initial: (_input: string) => ({ n: 0 }),
      async step(run) {
        run.state.n++;
        await run.effect("good", () => world.do("good"));
        if (broken) throw transient("no luck");
        return run.complete(run.state.n);
      },
    });
    const events: RunEvent[] = [];
    const sp = await lab.open();
    sp.on("run", (event) => void events.push(event));
    const result = await sp.run(agent, GO);
    expect(result.status).toBe("halted");
    expect(result.reason).toContain("Error: no luck");
    expect(events.filter(({ type }) => type === "retry")).toHaveLength(2);
    // Recorded effects are not executed again in the second and third attempt.
    expect(world.count("good")).toBe(1);
    broken = false;
    expect(await sp.run(agent, GO)).toMatchObject({ status: "halted" });
    expect(await sp.recover([agent])).toEqual([]);
    const after = await (await lab.open()).run(agent, { ...GO, resume: true });
    expect(after).toMatchObject({ status: "completed", output: 1 });
    expect(world.count("good")).toBe(1);
  });

  it("execute an effect again if its error ended the step, and replay errors that the step handled", async () => {
    const world = new World();
    let left = 2;
    const agent = defineAgent({
      name: "a",
      retry: { delay: 0 },
      initial: (_input: string) => ({}),
      async step(run) {
        const fail = (name: string) => (): never => {
          world.log.push(name);
          throw new Error(name);
        };
        await run.effect("handled", fail("handled")).catch(() => {});
        await run.tool({ id: "1", name: "fatal" }, () => (left-- > 0 ? fail("fatal")() : "fine"));
        return run.complete("done");
      },
    });
    expect(await (await lab.open()).run(agent, GO)).toMatchObject({ status: "completed" });
    expect(world.log).toEqual(["handled", "fatal", "fatal"]);
  });

  it("count failures across interruptions, and reset the count with every completed step", async () => {
    const world = new World();
    const agent = defineAgent({
      name: "a",
      retry: { attempts: 3, delay: 0 },
      initial: (_input: string) => ({}),
      async step(run) {
        // Not recorded: each attempt reaches this line.
        world.log.push(`attempt of ${run.step}`);
        const attempts = world.count(`attempt of ${run.step}`);
        if (run.step <= 2 && attempts < 3) throw transient("twice in each of the first two");
        if (run.step === 3) {
          if (attempts === 3) await run.effect("hang", () => world.do("hang"));
          throw transient("always");
        }
        return undefined;
      },
    });
    await interruptIn(lab, await lab.open(), agent, "go", world, "hang");
    const result = await (await lab.open()).run(agent, GO);
    expect(result).toMatchObject({ status: "halted", steps: 2 });
    expect(result.reason).toContain("3 attempts");
    expect(world.count("attempt of 3")).toBe(4);
  });

  it("migrate states of earlier versions, applying each migration once", async () => {
    const world = new World();
    const agent = (version: number) =>
      defineAgent({
        name: "a",
        migrations: [
          (state: { name: string }) => ({ names: [state.name] }),
          (state: { names: string[] }) => void state.names.push("migrated"),
        ].slice(0, version) as never[],
        initial: (input: string): unknown => ({ name: input }),
        async step(run) {
          await run.effect("pause", () => world.do(`pause ${run.step}`));
          if (run.step === 3) return run.complete(structuredClone(run.state));
          return undefined;
        },
      });
    await interruptIn(lab, await lab.open(), agent(0), "go", world, "pause 2");
    await interruptIn(lab, await lab.open(), agent(1), "go", world, "pause 3");
    const sp = await lab.open();
    expect(await codeOf(sp.run(agent(0), GO))).toBe("AGENT_TOO_OLD");
    expect(await sp.sessions.load("s")).toMatchObject({ status: "halted" });
    const result = await (await lab.open()).run(agent(2), GO);
    expect(result).toMatchObject({ status: "completed", output: { names: ["go", "migrated"] } });
    expect(world.count("pause 1")).toBe(1);
  });

  const versioned = (version: number) =>
    defineAgent({
      name: "chat",
      migrations: [(state: { text: string }) => ({ texts: [state.text] })].slice(0, version) as never[],
      initial: (input: string): { text?: string; texts?: string[] } =>
        version === 0 ? { text: input } : { texts: [input] },
      receive(state, input) {
        if (version === 0) state.text += input;
        else (state.texts ??= ["not migrated"]).push(input);
      },
      step: (run) => run.complete(structuredClone(run.state)),
    });

  it("migrate the state of a completed session before it receives its next input", async () => {
    const sp = await lab.open();
    await sp.run(versioned(0), { session: "s", input: "a" });
    const result = await sp.run(versioned(1), { session: "s", input: "b" });
    expect(result.output).toEqual({ texts: ["a", "b"] });
  });

  it("reject a further input for a session of a newer version", async () => {
    const sp = await lab.open();
    await sp.run(versioned(1), { session: "s", input: "a" });
    expect(await codeOf(sp.run(versioned(0), { session: "s", input: "b" }))).toBe("AGENT_TOO_OLD");
    expect((await sp.session("s").latest())?.state).toEqual({ texts: ["a"] });
  });

  it("resume a run that ended with run.fail()", async () => {
    let broken = true;
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({ n: 0 }),
      step(run) {
        run.state.n++;
        return broken ? run.fail("not yet") : run.complete(run.state.n);
      },
    });
    const sp = await lab.open();
    expect(await sp.run(agent, GO)).toMatchObject({ status: "failed", reason: "not yet" });
    broken = false;
    expect(await sp.run(agent, { ...GO, resume: true })).toMatchObject({ status: "completed", output: 2 });
  });

  it("release a session whose migration throws", async () => {
    const old = defineAgent({
      name: "a",
      initial: (_input: string) => ({}),
      async step(run) {
        await run.ask("?");
      },
    });
    const broken = defineAgent({
      name: "a",
      migrations: [
        () => {
          throw new Error("bad migration");
        },
      ],
      initial: (_input: string) => ({}),
      step: (run) => run.complete(),
    });
    const sp = await lab.open();
    await sp.run(old, GO);
    await sp.answer("s", 1);
    const code = await codeOf(sp.run(broken, GO));
    expect([code, (await sp.sessions.load("s"))?.status, await codeOf((await lab.open()).run(old, GO))]).toEqual([
      "AGENT_FAILED",
      "halted",
      "none",
    ]);
  });
});
