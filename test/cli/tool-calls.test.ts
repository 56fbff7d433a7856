/** Tool calls without a result in saved messages: `answer` gives them one or removes them. */
import { expect, it, type TestContext } from "vitest";
import { createPlace, type Fields, type Place, stateOf } from "./place.js";

const CALLS = [
  { id: "c1", name: "charge", arguments: { amount: 9 } },
  { id: "c2", name: "mail", arguments: {} },
];

async function chat(context: TestContext): Promise<Place> {
  return createPlace(context).fill((sp) =>
    sp.session("chat").save({
      messages: [
        { role: "user", content: "Charge me." },
        { role: "assistant", content: "I charge.", toolCalls: CALLS },
      ],
    }),
  );
}

const pendingOf = async (place: Place): Promise<string[]> =>
  (await place.json<{ pendingToolCalls: { id: string }[] }>(["show", "chat"])).pendingToolCalls.map(({ id }) => id);

it("answer without options names the tool calls without a result, and the options for them", async (context) => {
  const { message: text } = await (await chat(context)).fail(["answer", "chat"], 2);
  expect(text).toContain("charge (c1), mail (c2)");
  expect(text).toContain("--tool <id> --result <json>");
  expect(text).toContain("--drop-tool-calls");
});

it("--tool gives a tool call its result, and the other one stays open", async (context) => {
  const place = await chat(context);
  expect(await place.json(["answer", "chat", "--tool", "c1", "--result", '"paid"'])).toMatchObject({ seq: 1 });
  expect(await pendingOf(place)).toEqual(["c2"]);
  const { messages } = (await stateOf(place, "chat")) as { messages: Fields[] };
  expect(messages.at(-1)).toMatchObject({ role: "tool", toolCallId: "c1", content: "paid" });
  expect((await place.fail(["answer", "chat", "--tool", "c9", "--result", "1"], 2)).message).toContain("c9");
});

it("--drop-tool-calls removes the tool calls, and changes nothing the second time", async (context) => {
  const place = await chat(context);
  expect(await place.json(["answer", "chat", "--drop-tool-calls"])).toMatchObject({ seq: 1 });
  expect(await pendingOf(place)).toEqual([]);
  expect(await place.text(["answer", "chat", "--drop-tool-calls"])).toContain("nothing was changed");
  expect(await place.json(["answer", "chat", "--drop-tool-calls"])).toMatchObject({ seq: 1 });
});

it("--tool and --drop-tool-calls are rejected with options that answer a question", async (context) => {
  const place = await chat(context);
  for (const args of [
    ["--tool", "c1"],
    ["--tool", "c1", "--result", "1", "--drop-tool-calls"],
    ["--drop-tool-calls", "--result", "1"],
    ["--drop-tool-calls", "--text", "yes"],
    ["--tool", "c1", "--result", "1", "--happened"],
  ]) {
    await place.fail(["answer", "chat", ...args], 2);
  }
  expect(await pendingOf(place)).toEqual(["c1", "c2"]);
});
