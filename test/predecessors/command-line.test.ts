/** What the predecessors offered from the command line, or only seemed to. */
import { expect, it } from "vitest";
import { LIBRARY } from "../cli/command.js";
import { type Fields, saveAgent, saveTrip, stateOf, type Trip, usePlace } from "../cli/place.js";

const tool = usePlace();

interface Info extends Fields {
  readonly id: string;
}

const log = (name: string): Promise<Info[]> => tool().json<Info[]>(["log", name, "--all"]);

it("004-U7: sessions and checkpoints are listed, shown, resumed, restored and deleted from the command line", async () => {
  const agents = tool().file("agents.mjs", ASKING);
  const begun = await tool().on(["run", "--agents", agents, "--session", "order", "--input", '"88"']);
  expect(begun.code, begun.stderr).toBe(0);
  expect(begun.stdout).toContain("May I?");

  const listed = await tool().json<Fields[]>(["sessions"]);
  expect(listed.map(({ id, agent, status }) => ({ id, agent, status }))).toEqual([
    { id: "order", agent: "asking", status: "waiting" },
  ]);
  expect((await tool().json(["show", "order"]))["state"]).toEqual({ order: "88" });

  await tool().json(["answer", "order", "--text", "yes"]);
  const [resumed] = await tool().json<Fields[]>(["recover", "--agents", agents]);
  expect(resumed).toMatchObject({ session: "order", status: "completed", output: "yes" });
  expect(await stateOf(tool(), "order")).toEqual({ order: "88", answer: "yes" });

  const [first] = (await log("order")).reverse();
  await tool().json(["restore", (first as Info).id, "--yes"]);
  expect(await stateOf(tool(), "order")).toEqual({ order: "88" });

  const before = await log("order");
  const doomed = before[1] as Info;
  await tool().json(["delete", doomed.id, "--yes"]);
  expect((await log("order")).map(({ id }) => id)).toEqual(before.map(({ id }) => id).filter((id) => id !== doomed.id));
  await tool().json(["delete", "--session", "order", "--yes"]);
  expect(await tool().json(["sessions"])).toEqual([]);
});

it("004-B9: listing, restoring and deleting checkpoints from the command line changes the store", async () => {
  const [whole, ids] = await tool().leave(async (sp) => [await saveAgent(sp), await saveTrip(sp)] as const);
  expect((await log("trip")).map(({ id }) => id)).toEqual([...ids].reverse());

  await tool().json(["restore", "trip#1", "--yes"]);
  await tool().json(["restore", whole, "--yes"]);
  await tool().json(["delete", ids[3] as string, "--yes"]);

  // A program that opens the store afterwards finds the changes of the command line.
  await tool().leave(async (sp) => {
    const session = sp.session<Trip>("trip");
    expect((await session.latest())?.state).toEqual({ n: 1, messages: ["message 0"] });
    expect(await session.load(ids[3] as string)).toBeUndefined();
    expect((await session.load(ids[4] as string))?.state.n).toBe(4);
    expect((await sp.agents.load("planner"))?.state).toEqual({ mood: "good" });
    expect((await sp.conversations.load("first"))?.messages).toHaveLength(1);
    expect((await sp.verify({ deep: true })).ok).toBe(true);
  });
  expect(await tool().json(["log", "trip", "--all"])).toHaveLength(6);
});

const ASKING = `
import { defineAgent } from "${LIBRARY}";
export default defineAgent({
  name: "asking",
  initial: (order) => ({ order }),
  async step(run) {
    run.state.answer = await run.ask({ text: "May I?" });
    return run.complete(run.state.answer);
  },
});
`;
