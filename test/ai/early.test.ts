/** Replies that the SDK gets before they are durable: only if it executes wrapped tools with them, which wait for the reply. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { durable } from "../../src/integrations/ai/index.js";
import { Savepoint } from "../../src/index.js";
import { openMemoryStore } from "../../src/store/memory/store.js";
import { World } from "../run/lab.js";
import { call, type Content, scriptedModel } from "./models.js";
import { stepCountIs, VERSION } from "./sdk.js";
import { MODES, runLoop, shopTools } from "./shop.js";

/** Turns of the event loop that a commit takes. */
const TURNS = 30;

const INVALID: readonly (readonly [string, Content])[] = [
  ["has the wrong type", call("c1", "charge", { amount: "one" })],
  ["is not JSON", { ...call("c1", "charge", {}), input: "{" }],
  ["is empty", { ...call("c1", "charge", {}), input: "" }],
  ["has a key that the SDK rejects", { ...call("c1", "charge", {}), input: '{"amount":1,"__proto__":{}}' }],
];

describe.each(MODES)(`AI SDK ${VERSION}, %s`, (mode) => {
  it.each(INVALID)("a reply is durable when the loop ends with it, although its only call %s", async (_, content) => {
    const store = openMemoryStore();
    const commit = store.commit.bind(store);
    let isRecorded = false;
    store.commit = async (each) => {
      for (let turn = 0; turn < TURNS; turn++) await nextTurn();
      const result = await commit(each);
      isRecorded ||= JSON.stringify(each.items ?? []).includes("toolCallId");
      return result;
    };
    const sp = await Savepoint.open(store);
    const run = await durable(sp, { session: "s" });
    const world = new World();
    const { result } = await runLoop(mode, {
      model: run.model(scriptedModel(world, [[content]])),
      tools: run.tools(shopTools(world)),
      messages: run.messages("Charge me."),
      stopWhen: stepCountIs(1),
    } as never);
    expect(isRecorded).toBe(true);
    expect(world.count("charge 1")).toBe(0);
    await run.complete(result);
    await sp.close();
  });
});
