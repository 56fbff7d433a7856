/** What the command line shows of sessions of the OpenAI Agents SDK. */
import { expect, it } from "vitest";
import { createPlace } from "../cli/place.js";
import { linesOf } from "../cli/command.js";
import { World } from "../run/lab.js";
import { durable } from "../../src/integrations/openai/index.js";
import { createClerk, MODES, runAgent, serve } from "./crew.js";

it.for(MODES)("log shows the tools and the reply of each step of the loop: %s", async (mode, context) => {
  const place = createPlace(context);
  await place.leave((sp) => serve(sp, new World(), { mode }));
  const infos = await place.jsonl<{ activity?: { tools: { name: string }[]; reply?: string } }>([
    "log",
    "s",
    "--oldest",
  ]);
  const shown = infos.map(({ activity }) => [activity?.tools.map(({ name }) => name), activity?.reply]);
  expect(shown.flatMap(([tools]) => tools ?? [])).toEqual(["look", "charge", "charge"]);
  expect(shown.flatMap(([, reply]) => reply ?? [])).toEqual(["Charged twice."]);
  const lines = linesOf(await place.text(["log", "s"]));
  expect(lines.join("\n")).toContain('"Charged twice."');
});

it("journal shows the calls of an unfinished turn with their results, and show shows its items", async (context) => {
  const place = createPlace(context);
  await place.leave(async (sp) => {
    const turn = await durable(sp, { session: "s" });
    await runAgent("run", turn.agent(createClerk(new World())), "Charge me." as never, { session: turn.session });
  });
  const journal = await place.text(["journal", "s"]);
  for (const text of ["clerk", "look", "charge", "Charged twice."]) expect(journal).toContain(text);
  const shown = await place.text(["show", "s"]);
  expect(shown).toContain('"callId": "c2"');
});
