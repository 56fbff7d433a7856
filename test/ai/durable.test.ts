// The AI SDK's own loop, made durable: what is recorded, what is replayed, and what is kept of it.
import { describe, expect, it } from "vitest";
import type { AiState } from "../../src/integrations/ai/index.js";
import { KINDS, codeOf, errorOf, useLab, World } from "../run/lab.js";
import { scriptedModel } from "./models.js";
import { VERSION } from "./sdk.js";
import { dieIn, MODES, runLoop, SCRIPT, serve, shopTools } from "./shop.js";

const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

const EVERYTHING = ["model 0", "look stock", "charge 1", "model 1", "charge 2", "model 2"];

describe.each(KINDS)(`AI SDK ${VERSION} on $name`, (kind) => {
  const lab = useLab(kind);

  describe.each(MODES)("%s", (mode) => {
    it("does the same as the plain loop, and keeps the conversation as the SDK's own messages", async () => {
      const bare = await runLoop(mode, {
        model: scriptedModel(new World(), SCRIPT),
        tools: shopTools(new World()),
        prompt: "Charge me.",
      } as never);
      const [sp, world] = [await lab.open(), new World()];
      const done = await serve(sp, world, { mode });
      expect(done.text).toBe(bare.text);
      expect(plain(done.messages)).toEqual(plain(bare.messages));
      expect(world.log.sort()).toEqual([...EVERYTHING].sort());
      const latest = await sp.session<AiState>("s").latest();
      expect(latest).toMatchObject({ status: "completed", step: 3, usage: { tokens: 15 } });
      expect(plain(latest?.state)).toEqual({
        messages: [{ role: "user", content: "Charge me." }, ...(plain(bare.messages) as unknown[])],
        turn: { from: 0, done: true },
      });
    });

    it("makes each finished step a checkpoint with the messages so far", async () => {
      const [sp, world] = [await lab.open(), new World()];
      const done = await serve(sp, world, { mode });
      const session = sp.session<AiState>("s");
      const history = (await session.history().all()).reverse();
      expect(history.map(({ step, status }) => [step, status])).toEqual([
        [0, "running"],
        [1, "running"],
        [2, "running"],
        [3, "completed"],
      ]);
      const whole = [{ role: "user", content: "Charge me." }, ...(plain(done.messages) as unknown[])];
      for (const [step, length] of [0, 3, 5, 6].entries()) {
        const { state } = (await session.load({ step })) as { state: AiState };
        expect(plain(state.messages)).toEqual(whole.slice(0, length));
      }
      const changes = await session.diff({ step: 1 }, { step: 2 });
      expect(changes.map(({ path }) => path)).toEqual(["/messages/3", "/messages/4"]);
      expect(await sp.search("charged twice")).toMatchObject([{ source: "session", id: "s", path: "/messages/5" }]);
    });

    it.each(EVERYTHING)("resumes after a crash in %s, and repeats no recorded effect", async (at) => {
      const world = new World();
      await dieIn(lab, world, at, { mode, policy: { onUnknown: "retry" } });
      const sp = await lab.open();
      if (at === "look stock")
        await expect(serve(sp, world, { mode })).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
      if (at === "look stock") await sp.answer("s", { happened: false });
      const done = await serve(sp, world, { mode, policy: { onUnknown: "retry" } });
      expect(done.text).toBe("Charged twice.");
      for (const each of EVERYTHING) expect([each, world.count(each)]).toEqual([each, each === at ? 2 : 1]);
      const { state } = (await sp.session<AiState>("s").latest()) as { state: AiState };
      expect(state.messages).toHaveLength(6);
    });

    it("asks a person by default: the loop throws, the session waits, and resumes with the answer", async () => {
      const world = new World();
      await dieIn(lab, world, "charge 1", { mode });
      const sp = await lab.open();
      const error = await errorOf(serve(sp, world, { mode }));
      expect(error).toMatchObject({ code: "OUTCOME_UNKNOWN", details: { questions: [{ call: { id: "c1" } }] } });
      expect(await sp.sessions.load("s")).toMatchObject({ status: "waiting" });
      expect(world.count("model 1")).toBe(0);
      await sp.answer("s", { happened: true, result: { charged: 1, by: "the bank" } });
      const done = await serve(sp, world, { mode });
      expect(done.text).toBe("Charged twice.");
      expect(JSON.stringify(done.messages)).toContain("the bank");
      expect([world.count("charge 1"), world.count("charge 2"), world.count("model 0")]).toEqual([1, 1, 1]);
    });

    it("calls verify for an unknown outcome, and reports a failure to the model with fail", async () => {
      const world = new World();
      await dieIn(lab, world, "charge 1", { mode });
      const seen: unknown[] = [];
      const verify = (context: object) => {
        seen.push(context);
        return { happened: true, result: { charged: 1, found: true } } as const;
      };
      const done = await serve(await lab.open(), world, { mode, policy: { onUnknown: "verify", verify } });
      expect(seen).toMatchObject([{ toolCallId: "c1", input: { amount: 1 }, idempotencyKey: expect.any(String) }]);
      expect(JSON.stringify(done.messages)).toContain("found");
      expect(world.count("charge 1")).toBe(1);

      const failing = { session: "f", mode };
      await dieIn(lab, world, "charge 2", failing);
      const told = await serve(await lab.open(), world, { ...failing, policy: { onUnknown: "fail" } });
      expect(JSON.stringify(told.messages)).toContain("whether it happened is unknown");
      expect([told.text, world.count("charge 2")]).toEqual(["Charged twice.", 2]);
    });

    it("supports a second turn, which has the messages of the first and can be interrupted like it", async () => {
      const world = new World();
      const script = [...SCRIPT, [{ ...SCRIPT[1]?.[0], toolCallId: "c3" }], SCRIPT[2]] as never;
      const options = { mode, script, policy: { onUnknown: "retry" } } as const;
      await serve(await lab.open(), world, { ...options, turn: "one" });
      await dieIn(lab, world, "charge 2", { ...options, turn: "two", prompt: "Once more." });
      const sp = await lab.open();
      expect(await codeOf(serve(sp, world, { ...options, turn: "three" }))).toBe("UNFINISHED_TURN");
      // The input with which the turn began counts.
      const done = await serve(sp, world, { ...options, turn: "two", prompt: "Something else." });
      expect(done.text).toBe("Charged twice.");
      expect([world.count("model 3"), world.count("charge 2"), world.count("model 4")]).toEqual([1, 3, 1]);
      const { state } = (await sp.session<AiState>("s").latest()) as { state: AiState };
      expect(state.messages.map(({ role }) => role).join(" ")).toBe(
        "user assistant tool assistant tool assistant user assistant tool assistant",
      );
      expect([state.messages[6], state.turn]).toEqual([
        { role: "user", content: "Once more." },
        { from: 6, done: true },
      ]);
      // A completed turn is only replayed.
      const before = world.log.length;
      expect((await serve(sp, world, { ...options, turn: "two" })).text).toBe("Charged twice.");
      expect(world.log).toHaveLength(before);
    });

    it("accepts changed prompts and settings when it resumes, but no changed assistant or tool messages", async () => {
      const world = new World();
      await dieIn(lab, world, "model 2", { mode });
      const sp = await lab.open();
      const changed = { model: undefined, system: "Be brief.", temperature: 0.5 };
      delete (changed as { model?: unknown }).model;
      await serve(sp, world, { mode, more: changed as never });
      expect(world.count("model 1")).toBe(1);

      await dieIn(lab, world, "model 2", { mode, session: "other" });
      const lies = {
        prepareStep: ({ messages }: { messages: { role: string }[] }) => ({
          messages: messages.map((message) =>
            message.role === "assistant" ? { role: "assistant", content: "I charged you a million." } : message,
          ),
        }),
      };
      const refused = serve(await lab.open(), world, { mode, session: "other", more: lies as never });
      expect(["NONDETERMINISM", "other: AI_MissingToolResultsError"]).toContain((await codeOf(refused)).slice(0, 33));
    });
  });
});
