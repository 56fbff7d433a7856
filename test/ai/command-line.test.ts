/** What the command line shows of sessions of the AI SDK. */
import { expect, it } from "vitest";
import { createPlace } from "../cli/place.js";
import { linesOf } from "../cli/command.js";
import { World } from "../run/lab.js";
import { MODES, serve } from "./shop.js";

it.for(MODES)("log shows the tools and the reply of each step of the loop: %s", async (mode, context) => {
  const place = createPlace(context);
  await place.leave((sp) => serve(sp, new World(), { mode }));
  const infos = await place.jsonl<{
    activity?: { tools: { name: string }[]; reply?: string; usage?: { tokens: number } };
  }>(["log", "s", "--oldest"]);
  const shown = infos.map(({ activity }) => [activity?.tools.map(({ name }) => name), activity?.reply]);
  expect(shown.flatMap(([tools]) => tools ?? [])).toEqual(["look", "charge", "charge"]);
  expect(shown.flatMap(([, reply]) => reply ?? [])).toEqual(["I look.", "Charged twice."]);
  const lines = linesOf(await place.text(["log", "s"]));
  expect(lines.join("\n")).toContain('"Charged twice."');
  expect(lines.filter((line) => /\bcharge\b/.test(line)).length).toBeGreaterThanOrEqual(2);
});
