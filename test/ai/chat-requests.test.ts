// What clients of chats send and get: ids, streams of the user's own, invalid arguments.
import { describe, expect, it, onTestFinished } from "vitest";
import { type AiState, durable, resumeUIMessageStreamResponse, uiMessages } from "../../src/integrations/ai/index.js";
import type { Savepoint } from "../../src/index.js";
import { codeOf, type Lab, openLab } from "../run/lab.js";
import { text } from "./models.js";
import { ALL, answer, Reading, REPLY, Teller, textOf } from "./chat.js";
import { createUIMessageStream, streamText, VERSION } from "./sdk.js";

describe(`chats with AI SDK ${VERSION}`, () => {
  it.each(["\u0000", "a\tb", "", "x".repeat(2000), "__proto__", "../../etc/passwd", "a%2Fb", "😀", "constructor"])(
    "the id %j of a chat that does not exist has no stream",
    async (id) => {
      const sp = await opened();
      expect((await resumeUIMessageStreamResponse(sp, id)).status).toBe(204);
    },
  );

  it.each(["__proto__", "../../etc/passwd", "a%2Fb?x=1#y", "😀", "constructor", "data: x"])(
    "the id %j is a chat like any other",
    async (session) => {
      const sp = await opened();
      const teller = new Teller(REPLY);
      teller.say(2);
      const { response } = await answer(sp, teller, { session, turn: session });
      const reading = new Reading(await resumeUIMessageStreamResponse(sp, session));
      await reading.untilText("one two");
      teller.say(4);
      const [message, same] = [await reading.message(), await new Reading(response).message()];
      expect(message).toEqual(same);
      expect((await uiMessages(sp.session<AiState>(session))).map(({ id }) => id)).toEqual([session, message.id]);
    },
  );

  it("a slow reader makes neither the turn wait nor the memory grow: it reads what is stored", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    const long = `${"word ".repeat(200)}`.repeat(50);
    const teller = new Teller([[{ type: "text", text: long.replaceAll(" ", "\u00a0") }]]);
    teller.say(1);
    const { run, response } = await answer(sp, teller);
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    await run.ended();
    let size = 0;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      size += value.length;
    }
    expect(size).toBeGreaterThan(long.length);
  });

  it("chunks of a stream of the user's own are recorded, with an id and data", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    const teller = new Teller(REPLY);
    teller.say(4);
    const run = await durable(sp, { session: "s", turn: "m1", messages: "count" });
    const stream = createUIMessageStream({
      execute: ({ writer }) => {
        writer.write({ type: "start" });
        writer.write({ type: "data-note", data: { $: "x" } } as never);
        const result = streamText({ model: run.model(teller.model), messages: run.messages() });
        writer.merge(result.toUIMessageStream({ sendStart: false }) as never);
      },
    });
    const message = await new Reading(run.toUIMessageStreamResponse(stream)).message();
    expect([textOf(message), message.id]).toEqual([ALL, expect.stringMatching(/^reply-/)]);
    expect(message.parts.find(({ type }) => type === "data-note")).toEqual({ type: "data-note", data: { $: "x" } });
    await run.ended();
    expect((await sp.session<AiState>("s").latest())?.state.messages).toHaveLength(2);
  });

  it("a reply on another branch is resumed there", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    const teller = new Teller([[text("one two three four five six seven eight")]]);
    teller.say(8);
    const first = await answer(sp, teller);
    await first.run.ended();
    const { seq = 0 } = (await sp.session("s").latest()) ?? {};
    await sp.session("s").fork({ seq }, { branch: "what-if" });
    const { run } = await answer(sp, teller, { branch: "what-if", turn: "m2" });
    expect((await resumeUIMessageStreamResponse(sp, "s")).status).toBe(204);
    const resumed = new Reading(await resumeUIMessageStreamResponse(sp, "s", { branch: "what-if" }));
    teller.say(16);
    await run.ended();
    expect((await resumed.ended).text).toBe("one two three four five six seven eight");
    expect(await uiMessages(sp.session<AiState>("s", { branch: "what-if" }))).toHaveLength(4);
    expect((await resumeUIMessageStreamResponse(sp, "s", { branch: "none" })).status).toBe(204);
  });

  it("invalid arguments are rejected before anything starts", async (context) => {
    const lab = await openLab(context);
    const sp = await lab.open();
    expect(await codeOf(durable(sp, { session: "s", messages: [{ parts: [] }] as never }))).toBe("INVALID_ARGUMENT");
    expect(await sp.sessions.load("s")).toBeUndefined();
    const run = await durable(sp, { session: "s", messages: "hello" });
    expect(() => run.messages("again")).toThrow("was passed to durable()");
    expect(() => run.toUIMessageStreamResponse("text" as never)).toThrow("needs the result of streamText()");
    expect(await codeOf(uiMessages("s" as never))).toBe("INVALID_ARGUMENT");
    expect(await uiMessages(sp.session<AiState>("none"))).toEqual([]);
    const teller = new Teller(REPLY);
    const result = streamText({ model: run.model(teller.model), messages: run.messages() });
    run.toUIMessageStreamResponse(result);
    expect(() => run.toUIMessageStreamResponse(result)).toThrow("once in a turn");
    teller.say(4);
    await run.ended();
  });

  async function opened(): Promise<Savepoint> {
    let lab: Lab | undefined;
    lab = await openLab({ onTestFinished } as never);
    return lab.open();
  }
});
