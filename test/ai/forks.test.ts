// What if, on the AI SDK's loop: branches from the middle of a turn, unchanged, with another state, with another result.
import { describe, expect, it } from "vitest";
import type { AiState } from "../../src/integrations/ai/index.js";
import { codeOf, KINDS, useLab, World } from "../run/lab.js";
import { text } from "./models.js";
import { VERSION } from "./sdk.js";
import { SCRIPT, serve } from "./shop.js";

describe.each(KINDS)(`branches of a session of AI SDK ${VERSION}, on $name`, (kind) => {
  const lab = useLab(kind);

  it("resume from an unchanged step: recorded effects are replayed, and the rest is executed", async () => {
    const [sp, world] = [await lab.open(), new World()];
    await serve(sp, world);
    const session = sp.session<AiState>("s");
    const fork = await session.fork({ step: 1 });
    const script = [SCRIPT[0], [text("Once is enough.")]] as never;
    const done = await serve(sp, world, { branch: fork.branch, script });
    expect(done.text).toBe("Once is enough.");
    expect([world.count("model 0"), world.count("charge 1"), world.count("charge 2"), world.count("model 1")]).toEqual([
      1, 1, 1, 2,
    ]);
    const [here, there] = [await fork.latest(), await session.latest()];
    expect(here?.state.messages.slice(0, 3)).toEqual(there?.state.messages.slice(0, 3));
    expect([here?.state.messages.length, there?.state.messages.length]).toEqual([4, 6]);
  });

  it("resume from a step with other messages", async () => {
    const [sp, world] = [await lab.open(), new World()];
    await serve(sp, world);
    const session = sp.session<AiState>("s");
    const { state } = (await session.load({ step: 2 })) as { state: AiState };
    const messages = [...state.messages, { role: "user" as const, content: "Stop that." }];
    const fork = await session.fork({ step: 2 }, { state: { ...state, messages } });
    // The new prompt has no effect: the turn has already begun.
    const done = await serve(sp, world, { branch: fork.branch, prompt: "ignored" });
    expect(done.text).toBe("Charged twice.");
    expect(world.count("model 2")).toBe(2);
    expect(world.log).toHaveLength(7);
    const said = (await fork.latest())?.state.messages ?? [];
    expect(said.map(({ role }) => role)).toEqual([
      "user",
      "assistant",
      "tool",
      "assistant",
      "tool",
      "user",
      "assistant",
    ]);
    expect(said[0]).toEqual({ role: "user", content: "Charge me." });
  });

  it("resume with another result of a tool call", async () => {
    const [sp, world] = [await lab.open(), new World()];
    await serve(sp, world);
    const session = sp.session<AiState>("s");
    const fork = await session.fork({ step: 3 }, { results: { c2: { charged: 0, why: "declined" } } });
    const done = await serve(sp, world, { branch: fork.branch });
    expect(JSON.stringify(done.messages)).toContain("declined");
    expect([world.count("charge 2"), world.count("model 1"), world.count("model 2")]).toEqual([1, 1, 2]);
  });

  it("have their own turns", async () => {
    const [sp, world] = [await lab.open(), new World()];
    await serve(sp, world, { turn: "one" });
    const fork = await sp.session<AiState>("s").fork({ step: 3 });
    const script = [...SCRIPT, [text("Sure.")], [text("Gladly.")]] as never;
    expect((await serve(sp, world, { branch: fork.branch, turn: "two", prompt: "And?", script })).text).toBe("Sure.");
    expect((await serve(sp, world, { turn: "two", prompt: "So?", script })).text).toBe("Sure.");
    expect((await serve(sp, world, { branch: fork.branch, turn: "three", prompt: "And?", script })).text).toBe(
      "Gladly.",
    );
    expect((await sp.session<AiState>("s").latest())?.state.messages).toHaveLength(8);
    expect(await codeOf(serve(sp, world, { branch: "none" }))).toBe("BRANCH_NOT_FOUND");
  });

  it("that are rewound to the middle of a turn can start another turn from there", async () => {
    const [sp, world] = [await lab.open(), new World()];
    await serve(sp, world, { turn: "one" });
    await sp.session("s").rewind({ step: 1 });
    const done = await serve(sp, world, { turn: "again", abandon: true, prompt: "Charge me again." });
    expect(done.text).toBe("Charged twice.");
    expect(world.count("charge 1")).toBe(2);
  });
});
