// Forks in the middle of a turn: the agent continues from there, with what was recorded or with what a person has changed.
import { expect, it } from "vitest";
import type { OpenAiState } from "../../src/integrations/openai/index.js";
import { openLab, World } from "../run/lab.js";
import { say, serve } from "./crew.js";

it("a fork replays what was recorded before it, and continues on its own branch", async (test) => {
  const lab = await openLab(test);
  const [sp, world] = [await lab.open(), new World()];
  await serve(sp, world, { turn: "one" });
  const fork = await sp.session("s").fork({ step: 2 });
  const { branch } = fork;
  const script = [[], [], say("Instead.")];
  const { end } = await serve(sp, world, { turn: "one", branch, script });
  expect(end.output).toBe("Instead.");
  expect(["clerk 0", "charge 1", "charge 2", "clerk 2"].map((each) => world.count(each))).toEqual([1, 1, 1, 2]);
  expect((await sp.session<OpenAiState>("s").latest())?.state.messages).toHaveLength(8);
  expect((await sp.session<OpenAiState>("s", { branch }).latest())?.state.messages).toHaveLength(8);
});

it("a fork with another result of a tool continues with that result", async (test) => {
  const lab = await openLab(test);
  const [sp, world] = [await lab.open(), new World()];
  await serve(sp, world, { turn: "one" });
  const { branch } = await sp.session("s").fork({ step: 2 }, { results: { c2: "declined" } });
  await serve(sp, world, { turn: "one", branch, script: [[], [], say("Declined.")] });
  const text = JSON.stringify((await sp.session("s", { branch }).latest())?.state);
  expect(text).toContain("declined");
  expect(world.count("charge 2")).toBe(1);
});

it("a fork with an edited history continues with all of it", async (test) => {
  const lab = await openLab(test);
  const [sp, world] = [await lab.open(), new World()];
  await serve(sp, world, { turn: "one" });
  const session = sp.session<OpenAiState>("s");
  const { state } = (await session.load({ step: 1 })) as { state: OpenAiState };
  const messages = state.messages.filter(({ type }) => type !== "function_call" && type !== "function_call_result");
  const { branch } = await session.fork({ step: 1 }, { state: { ...state, messages } });
  await serve(sp, world, { branch, turn: "two", input: "Do not charge me.", script: [say("As you wish.")] });
  const latest = await sp.session<OpenAiState>("s", { branch }).latest();
  expect(latest?.state.messages.map((item) => ("content" in item ? item.content : ""))).toMatchObject([
    "Charge me.",
    "Do not charge me.",
    [{ text: "As you wish." }],
  ]);
});
