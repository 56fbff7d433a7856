import { describe, expect, it } from "vitest";
import { defineAgent, isSavepointError, type Savepoint } from "../../src/index.js";
import { codeOf, errorOf, KINDS, useLab } from "./lab.js";

const echo = defineAgent({
  name: "echo",
  initial: (input: string) => ({ input }),
  step: (run) => run.complete(run.state.input),
});

describe.each(KINDS)("a completed session of an agent without receive, on $name", (kind) => {
  const lab = useLab(kind);

  it("rejects another input, and says what to do", async () => {
    await (await lab.open()).run(echo, { session: "s", input: "a" });
    const sp = await lab.open();
    const error = await errorOf(sp.run(echo, { session: "s", input: "b" }));
    expect(error.code).toBe("INPUT_MISMATCH");
    expect(error.message).toMatch(
      /Session "s".*completed with a different input.*another session id.*leave the input out/,
    );
    expect(await codeOf(sp.start(echo, { session: "s", input: "b" }))).toBe("INPUT_MISMATCH");
    expect(await codeOf(sp.run(echo, { session: "s", input: "b", resume: true }))).toBe("INPUT_MISMATCH");
  });

  it("returns the recorded result for an equal input, for no input, and for the key of its turn", async () => {
    const sp = await lab.open();
    await sp.run(echo, { session: "s", input: "a", key: "k" });
    const other = await lab.open();
    for (const options of [{ input: "a" }, {}, { input: "b", key: "k" }])
      expect(await other.run(echo, { session: "s", ...options })).toMatchObject({ status: "completed", output: "a" });
  });

  it("accepts another input if the agent has receive", async () => {
    const chat = defineAgent({
      name: "chat",
      initial: (input: string) => ({ inputs: [input] }),
      receive: (state, input) => void state.inputs.push(input),
      step: (run) => run.complete(run.state.inputs.join()),
    });
    const sp = await lab.open();
    await sp.run(chat, { session: "s", input: "a" });
    expect(await sp.run(chat, { session: "s", input: "b" })).toMatchObject({ output: "a,b" });
  });
});

describe("missing arguments", () => {
  const lab = useLab(KINDS[0] as (typeof KINDS)[number]);
  type Loose = Record<string, (...args: unknown[]) => unknown>;
  const calls: readonly (readonly [string, (sp: Loose) => unknown, RegExp])[] = [
    ["sp.run()", (sp) => sp["run"]?.(), /agent/],
    ["sp.run(agent)", (sp) => sp["run"]?.(echo), /session/],
    ["sp.run(agent, null)", (sp) => sp["run"]?.(echo, null), /session/],
    ["sp.run(agent, {})", (sp) => sp["run"]?.(echo, {}), /session/],
    ["sp.run(agent, a string)", (sp) => sp["run"]?.(echo, "s"), /session/],
    ["sp.run(options)", (sp) => sp["run"]?.({ session: "s" }), /agent/],
    ["sp.start()", (sp) => sp["start"]?.(), /agent/],
    ["sp.start(agent)", (sp) => sp["start"]?.(echo), /session/],
    ["sp.start(agent, {})", (sp) => sp["start"]?.(echo, {}), /session/],
    ["sp.enqueue()", (sp) => sp["enqueue"]?.(), /agent/],
    ["sp.enqueue(agent)", (sp) => sp["enqueue"]?.(echo), /session/],
    ["sp.enqueue(agent, {})", (sp) => sp["enqueue"]?.("echo", {}), /session/],
    ["sp.enqueue(agent, { session })", (sp) => sp["enqueue"]?.("echo", { session: "s" }), /input/],
    ["sp.openRun()", (sp) => sp["openRun"]?.(), /session/],
    ["sp.openRun({})", (sp) => sp["openRun"]?.({}), /session/],
    ["sp.openRun({ session })", (sp) => sp["openRun"]?.({ session: "s" }), /initial/],
    ["sp.send()", (sp) => sp["send"]?.(), /session/],
    ["sp.send(session, input, null)", (sp) => sp["send"]?.("s", 1, null), /options/],
    ["sp.answer()", (sp) => sp["answer"]?.(), /session/],
    ["sp.cancel()", (sp) => sp["cancel"]?.(), /session/],
    ["sp.cancel(session, reason, null)", (sp) => sp["cancel"]?.("s", "r", null), /options/],
    ["sp.session()", (sp) => sp["session"]?.(), /session/],
    ["sp.session(id, null)", (sp) => sp["session"]?.("s", null), /options/],
    ["sp.worker()", (sp) => sp["worker"]?.(), /agents/],
    ["sp.worker(agent)", (sp) => sp["worker"]?.(echo), /array of agents/],
    ["sp.worker([undefined])", (sp) => sp["worker"]?.([undefined]), /agent/],
    ["sp.worker(agents, null)", (sp) => sp["worker"]?.([echo], null), /options/],
    ["sp.recover()", (sp) => sp["recover"]?.(), /agents/],
    ["sp.watch()", (sp) => sp["watch"]?.(), /session/],
    ["sp.journal()", (sp) => sp["journal"]?.(), /session/],
  ];

  it.each(calls)("%s is INVALID_ARGUMENT and names what is missing", async (_, call, missing) => {
    const sp = await lab.open();
    const error = await (async () => call(sp as Savepoint as unknown as Loose))().then(
      () => undefined,
      (thrown: unknown) => thrown as Error,
    );
    expect(String(error)).toMatch(missing);
    expect(isSavepointError(error, "INVALID_ARGUMENT"), String(error)).toBe(true);
  });
});
