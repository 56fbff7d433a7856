// Crews of agents in a durable turn: handoffs, and agents that are used as tools.
import { Agent, handoff, run } from "@openai/agents-core";
import { describe, expect, it } from "vitest";
import { durable, type ToolPolicies } from "../../src/integrations/openai/index.js";
import { openLab, World } from "../run/lab.js";
import { isFull } from "../support/runs.js";
import { call, dieIn, MODES, runAgent, say, scriptedModel, serve, shopTools } from "./crew.js";

/** A clerk who asks an adviser, and hands off to a cashier, who charges twice and hands back. */
function createCrew(world: World): Agent {
  const adviser = new Agent({
    name: "adviser",
    model: scriptedModel(world, "adviser", [call("l1", "look", { what: "price" }), say("It costs 7.")]),
    tools: shopTools(world).slice(0, 1),
  });
  const cashier = new Agent({
    name: "cashier",
    // The history of the turn has the replies of all agents.
    model: scriptedModel(world, "cashier", [
      [],
      [],
      call("c1", "charge", { amount: 7 }),
      call("b1", "transfer_to_clerk"),
    ]),
    tools: shopTools(world).slice(1),
  });
  const clerk = new Agent({
    name: "clerk",
    model: scriptedModel(world, "clerk", [
      [
        ...call("a1", "ask_adviser", { input: "What does it cost?" }),
        ...call("a2", "ask_adviser", { input: "Really?" }),
      ],
      call("h1", "transfer_to_cashier"),
      [],
      [],
      say("Charged 7."),
    ]),
    tools: [adviser.asTool({ toolName: "ask_adviser", toolDescription: "Asks." })],
    handoffs: [cashier],
  });
  cashier.handoffs = [handoff(clerk)];
  return clerk;
}

const POINTS = [
  "clerk 0",
  "adviser 0",
  "look price",
  "adviser 1",
  "clerk 1",
  "cashier 2",
  "charge 7",
  "cashier 3",
  "clerk 4",
];

const RETRY: ToolPolicies = { charge: { onUnknown: "retry" }, look: { onUnknown: "retry" } };

describe.each(MODES)("handoffs and agents as tools: %s", (mode) => {
  it("records the calls of all agents, in the order and under the names of the journal", async (test) => {
    const lab = await openLab(test);
    const [sp, world] = [await lab.open(), new World()];
    const agent = createCrew(world);
    const bare = await runAgent(mode, createCrew(new World()), "Charge me." as never);
    const turn = await durable(sp, { session: "s" });
    const wrapped = turn.agent(agent, RETRY);
    const result = await runAgent(mode, wrapped, "Charge me." as never, { session: turn.session });
    const journal = await sp.journal("s").all();
    expect((await turn.complete(result)).output).toBe("Charged 7.");
    expect(result.history).toEqual(bare.history);
    expect(result.lastAgent?.name).toBe("clerk");
    const names = journal.map(({ kind, name, callId }) => [kind, name, callId ?? ""].join(" ").trim());
    expect([...new Set(names)].sort()).toEqual([
      "llm adviser (a1)",
      "llm adviser (a2)",
      "llm cashier",
      "llm clerk",
      "tool charge c1",
      "tool look a1/l1",
      "tool look a2/l1",
    ]);
    // Outside of the turn, the agents are as they were.
    expect((await run(agent, "What does it cost?")).finalOutput).toBe("Charged 7.");
  });

  it.for(isFull || mode === "run" ? POINTS : ["adviser 1", "charge 7"])(
    "resumes after a crash in %s, and repeats no recorded effect",
    async (at, test) => {
      const lab = await openLab(test);
      const world = new World();
      await dieIn(lab, world, at, { mode, agent: createCrew(world), policies: RETRY });
      const before = [...world.log];
      const { end } = await serve(await lab.open(), world, { mode, agent: createCrew(world), policies: RETRY });
      expect(end.output).toBe("Charged 7.");
      for (const each of POINTS) {
        const times = each.startsWith("adviser") || each === "look price" ? 2 : 1;
        // Beside the call that hung, the same call of the parallel agent may have hung too.
        const repeated = each === at ? [times + 1, times + 2] : [times];
        const isBeside = before.includes(each) && world.count(each) === times + 1 && at.startsWith("adviser");
        expect(isBeside || repeated.includes(world.count(each)), `${each}: ${world.log.join(", ")}`).toBe(true);
      }
    },
  );
});
