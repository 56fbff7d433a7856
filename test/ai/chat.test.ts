// Chats with UI message streams of the AI SDK: the turn does not depend on its readers, and readers can come back at any time.
import { describe, expect, it } from "vitest";
import type { UIMessage } from "ai";
import { z } from "zod";
import { type AiState, durable, resumeUIMessageStreamResponse, uiMessages } from "../../src/integrations/ai/index.js";
import { createGate, errorOf, KINDS, until, untilStatus, useLab } from "../run/lab.js";
import { ALL, answer, Reading, REPLY, Teller, textOf } from "./chat.js";
import { call, text } from "./models.js";
import { MockModel, tool, VERSION } from "./sdk.js";

describe.each(KINDS)(`chats with AI SDK ${VERSION} on $name`, (kind) => {
  const lab = useLab(kind);

  it("a turn that is killed before its model call has its input when it is resumed", async () => {
    const sp = await lab.open();
    const first = await durable(sp, { session: "s", turn: "m1", messages: [{ role: "user", content: "count" }] });
    expect(first.messages()).toEqual([{ role: "user", content: "count" }]);
    lab.crash();
    const next = await lab.open();
    expect((await next.session<AiState>("s").latest())?.state.messages).toEqual([{ role: "user", content: "count" }]);
    const teller = new Teller(REPLY);
    teller.say(4);
    const { response } = await answer(next, teller, { turn: undefined, messages: undefined } as never);
    expect(textOf(await new Reading(response).message())).toBe(ALL);
    const { status, state } = (await next.session<AiState>("s").latest()) ?? {};
    expect(status).toBe("completed");
    expect(state?.messages.map(({ role }) => role)).toEqual(["user", "assistant"]);
  });

  it("the second turn has the whole conversation, and an abandoned turn leaves nothing", async () => {
    const sp = await lab.open();
    const teller = new Teller(REPLY);
    teller.say(20);
    await new Reading((await answer(sp, teller)).response).ended;
    const abandoned = await durable(sp, { session: "s", turn: "m2", messages: "forget this" });
    await abandoned.release();
    const { run, response } = await answer(sp, teller, { turn: "m3", messages: "again", abandon: true });
    await new Reading(response).ended;
    await run.ended();
    const messages = (await sp.session<AiState>("s").latest())?.state.messages ?? [];
    expect(messages.map(({ role }) => role)).toEqual(["user", "assistant", "user", "assistant"]);
    expect(JSON.stringify(messages)).not.toContain("forget");
    expect(teller.prompts.at(-1)).toHaveLength(3);
    expect((await uiMessages(sp.session<AiState>("s"))).map(({ id }) => id)).toEqual([
      "m1",
      expect.stringMatching(/^reply-/),
      "m3",
      expect.stringMatching(/^reply-/),
    ]);
  });

  it("the turn completes without a reader, and a later reader gets the complete reply", async () => {
    const [sp, other] = [await lab.open(), await lab.open()];
    const teller = new Teller(REPLY);
    const { run, response } = await answer(sp, teller);
    teller.say(2);
    await response.body?.cancel();
    const [here, elsewhere] = [
      new Reading(await resumeUIMessageStreamResponse(sp, "s")),
      new Reading(await resumeUIMessageStreamResponse(other, "s")),
    ];
    await Promise.all([here.untilText("one two"), elsewhere.untilText("one two")]);
    teller.say(4);
    await run.ended();
    expect((await other.sessions.load("s"))?.status).toBe("completed");
    for (const reading of [here, elsewhere]) {
      const message = await reading.message();
      expect([textOf(message), message.id]).toEqual([ALL, (await uiMessages(sp.session<AiState>("s"))).at(-1)?.id]);
      expect(reading.isDone).toBe(true);
      expect(reading.chunks.at(-1)?.type).toBe("finish");
    }
    expect(teller.calls).toBe(1);
    expect((await resumeUIMessageStreamResponse(sp, "s")).status).toBe(204);
  });

  it("a stream ends after its turn is completed", async () => {
    const sp = await lab.open();
    const teller = new Teller(REPLY);
    teller.say(4);
    const reading = new Reading((await answer(sp, teller)).response);
    await until(() => reading.chunks.some(({ type }) => type === "finish"), "the last chunk");
    // The chunk itself is in the commit that completes the turn.
    expect((await sp.sessions.load("s"))?.status).toBe("completed");
    await reading.ended;
  });

  it("a turn that is interrupted and resumed shows each part once", async () => {
    const sp = await lab.open();
    const first = new Teller(REPLY);
    first.say(2);
    const before = new Reading((await answer(sp, first)).response);
    await before.untilText("one two");
    const reader = await lab.open();
    const live = new Reading(await resumeUIMessageStreamResponse(reader, "s"));
    await live.untilText("one two");
    lab.crash();
    const late = new Reading(await resumeUIMessageStreamResponse(reader, "s"));
    const again = new Teller(REPLY);
    again.say(4);
    const { run } = await answer(await lab.open(), again, { turn: undefined, messages: undefined } as never);
    await run.ended();
    // Both attempts say the same, so the reader that has seen the first one need not notice.
    for (const reading of [live, late]) expect(textOf(await reading.message())).toBe(ALL);
    expect([first.calls, again.calls]).toEqual([1, 1]);
  });

  it("the stream of an interrupted attempt is closed with an error if the next attempt replies differently", async () => {
    const sp = await lab.open();
    const first = new Teller(REPLY);
    first.say(2);
    await answer(sp, first);
    const reader = await lab.open();
    const live = new Reading(await resumeUIMessageStreamResponse(reader, "s"));
    await live.untilText("one two");
    lab.crash();
    const again = new Teller([[text("uno due tre")]]);
    again.say(3);
    const { run } = await answer(await lab.open(), again, { turn: undefined, messages: undefined } as never);
    await run.ended();
    expect((await errorOf(live.ended)).code).toBe("STREAM_LOST");
    expect(live.text.trim()).toBe("one two");
    expect(live.isDone).toBe(false);
    expect(textOf((await uiMessages(sp.session<AiState>("s")))[1] as UIMessage)).toBe("uno due tre");
  });

  it("the stream of a turn that no process resumes is closed with an error after the patience", async () => {
    const sp = await lab.open();
    const teller = new Teller(REPLY);
    teller.say(2);
    await answer(sp, teller);
    await untilStatus(sp, "running");
    const reader = await lab.open();
    const live = new Reading(await resumeUIMessageStreamResponse(reader, "s", { patience: 50 }));
    await live.untilText("one two");
    lab.crash();
    expect((await errorOf(live.ended)).code).toBe("STREAM_LOST");
    expect(live.isDone).toBe(false);
  });

  it("a cancel stops the turn, and its readers get the abort", async () => {
    const [sp, other] = [await lab.open(), await lab.open()];
    const teller = new Teller(REPLY);
    teller.say(2);
    const { run, response } = await answer(sp, teller);
    const readings = [new Reading(response), new Reading(await resumeUIMessageStreamResponse(other, "s"))];
    for (const reading of readings) await reading.untilText("one two");
    expect(await sp.cancel("s", "the user pressed stop")).toBe(true);
    for (const reading of readings) {
      await reading.ended;
      expect(reading.chunks.at(-1)).toMatchObject({ type: "abort", reason: "cancelled: the user pressed stop" });
      expect(reading.isDone).toBe(true);
    }
    await run.ended();
    expect((await sp.sessions.load("s"))?.status).toBe("halted");
    expect((await resumeUIMessageStreamResponse(sp, "s")).status).toBe(204);
  });

  it("a model that fails ends the turn as failed, and the reader gets the error; the same turn again resumes", async () => {
    const sp = await lab.open();
    const failing = new MockModel({
      doStream: async () => {
        throw new Error("secret details");
      },
    } as never);
    const { run, response } = await answer(
      sp,
      new Teller(REPLY),
      {},
      (opened) => ({ model: opened.model(failing) }) as never,
    );
    const reading = await new Reading(response).ended;
    await run.ended();
    expect(reading.chunks.at(-1)).toEqual({ type: "error", errorText: "An error occurred." });
    expect(await sp.sessions.load("s")).toMatchObject({ status: "failed", reason: expect.stringContaining("secret") });
    const teller = new Teller(REPLY);
    teller.say(4);
    const again = await answer(sp, teller);
    expect(textOf(await new Reading(again.response).message())).toBe(ALL);
    // A completed turn is replayed.
    const replayed = await answer(sp, teller);
    expect(textOf(await new Reading(replayed.response).message())).toBe(ALL);
    expect(teller.calls).toBe(1);
  });

  it("a tool with an unknown outcome ends the stream, and the turn waits for a person", async () => {
    const script = [[text("I charge. "), call("c1", "charge", {})], [text("Done.")]];
    const tools = (execute: () => Promise<object>) => ({ charge: tool({ inputSchema: z.object({}), execute }) });
    const sp = await lab.open();
    const first = new Teller(script);
    first.say(9);
    const reached = createGate();
    const hang = async () => (reached.open(), new Promise<never>(() => {}));
    await answer(sp, first, {}, (run) => ({ tools: run.tools(tools(hang)) }) as never);
    await reached.promise;
    lab.crash();
    const next = await lab.open();
    const again = new Teller(script);
    again.say(9);
    const resumed = await answer(next, again, {}, (run) => ({ tools: run.tools(tools(async () => ({}))) }) as never);
    const reading = await new Reading(resumed.response).ended;
    await resumed.run.ended();
    expect((await next.sessions.load("s"))?.status).toBe("waiting");
    expect(reading.chunks.at(-1)?.type).toBe("error");
    expect((await resumeUIMessageStreamResponse(next, "s")).status).toBe(204);
    await next.answer("s", { happened: true, result: { charged: 1 } });
    const last = await answer(next, again, {}, (run) => ({ tools: run.tools(tools(async () => ({}))) }) as never);
    expect(textOf(await new Reading(last.response).message())).toBe("I charge. Done.");
    const [asked, reply] = await uiMessages(next.session<AiState>("s"));
    expect(asked).toEqual({ id: "m1", role: "user", parts: [{ type: "text", text: "count" }] });
    expect(reply?.parts).toEqual([
      { type: "step-start" },
      { type: "text", text: "I charge. ", state: "done" },
      { type: "tool-charge", toolCallId: "c1", state: "output-available", input: {}, output: { charged: 1 } },
      { type: "step-start" },
      { type: "text", text: "Done.", state: "done" },
    ]);
  });
});
