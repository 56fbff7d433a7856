/**
 * The stores that the fuzzer starts from: small, with data of every kind. Sessions with branches, labels, pins, annotations,
 * bytes and long lists; runs in flight; an agent with conversations and checkpoints; a retention policy.
 */
import { defineAgent, message } from "savepoint";

/** @typedef {import("savepoint").Savepoint} Savepoint */

/** The session and the agent that nothing may change. */
export const VICTIM = "victim";
export const VICTIM_AGENT = "victim-agent";

/** @param {number} seed @param {number} length bytes that do not compress */
function noise(seed, length) {
  const bytes = new Uint8Array(length);
  for (let index = 0, at = seed | 1; index < length; index++) {
    at = (Math.imul(at, 1664525) + 1013904223) >>> 0;
    bytes[index] = at >>> 24;
  }
  return bytes;
}

/** @param {Savepoint} sp @param {string} id @param {string} [agent] */
async function fillSession(sp, id, agent) {
  /** @type {import("savepoint").Session<any>} */
  const session = sp.session(id, agent === undefined ? {} : { agent });
  const said = Array.from({ length: 30 }, (_, n) => ({ role: "user", content: `${id} order ${n} ${"x".repeat(60)}` }));
  const more = {
    map: new Map(
      /** @type {[unknown, unknown][]} */ ([
        ["a", new Date(5)],
        [new Date(7), 10n ** 30n],
      ]),
    ),
    set: new Set([1, "two", 3n]),
    bytes: noise(id.length, 2000),
    odd: [undefined, -0, NaN, Infinity, new URL("https://example.com/a")],
    keys: Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`key ${n}`, n])),
    text: "long ".repeat(2000),
    table: Array.from({ length: 300 }, (_, n) => n / 7),
  };
  const first = await session.save({ n: 0, messages: said.slice(0, 20), more }, { label: "first", pinned: true });
  const second = await session.append("/messages", said.slice(20), {
    label: "both",
    description: "what",
    metadata: { who: "me", when: new Date(9) },
    usage: { tokens: 7, cost: 0.5 },
  });
  const third = await session.save({ n: 2, messages: said.slice(5, 25), more: { small: noise(3, 1500) } });
  await session.label(first.id, "renamed");
  await session.label(second.id, undefined);
  await session.pin(third.id);
  await session.annotate(second.id, "review", () => ({ approved: true, notes: said.slice(0, 5) }));
  await session.annotate(third.id, "review", () => ({ approved: false, text: "y".repeat(600) }));
  await session.rewind(second.id);
  const fork = await session.fork(first.id, { branch: "side", state: { n: 9, messages: [], more: 1n } });
  await fork.append("/messages", [{ role: "user", content: "hay" }], { label: "both" });
  await session.fork(third.id);
  await session.save({ n: 3, messages: said }, { id: `${id}-chosen`, ttl: "90d" });
}

/** A list of more than 32 ranges, so that node items hold them. @param {Savepoint} sp @param {string} id */
async function fillScattered(sp, id) {
  const session = sp.session(id);
  const list = Array.from({ length: 90 }, (_, n) => `element ${n} ${"z".repeat(250)}`);
  await session.save({ list });
  await session.save({ list: list.filter((_, n) => n % 2 === 0) });
  await session.save({ list: list.filter((_, n) => n % 2 === 0).reverse() });
}

/** @param {Savepoint} sp @param {string} agent */
async function fillAgent(sp, agent) {
  /** @param {string} id */
  const own = (id) => `${agent}-${id}`;
  /** @param {string[]} texts */
  const say = (...texts) => texts.map((text) => message.user(text));
  const attachment = /** @type {const} */ ({ type: "file", name: "f", content: noise(agent.length, 2000) });
  await sp.agents.save({ id: agent, name: `Agent ${agent}`, state: { solved: 1, map: new Map([[1, 2n]]) } });
  await sp.conversations.create({ id: own("gone"), agent, messages: say("needle in what is gone", "two") });
  await sp.conversations.create({ id: own("cut"), agent, title: "Titel", tags: ["t"], messages: say("one", "two") });
  await sp.conversations.create({
    id: own("kept"),
    agent,
    metadata: { lang: "de", at: new Date(3) },
    messages: [message.user("with a file", { attachments: [attachment] })],
  });
  const first = await sp.checkpoints.create({ agent, label: "first", pinned: true, metadata: { why: "test" } });
  await sp.conversations.delete(own("gone"));
  await sp.conversations.save({ id: own("cut"), messages: say("one", "four") });
  await sp.agents.save({ id: agent, name: `Agent ${agent}`, systemPrompt: "Be.", state: { solved: 2 } });
  await sp.checkpoints.restore(first.id);
  await sp.conversations.append(own("gone"), say("it is back", "hay"));
  await sp.conversations.create({ id: own("late"), agent, messages: say("late order") });
  await sp.checkpoints.create({ agent });
  await sp.conversations.delete(own("late"));
}

/** An agent whose steps wait, ask or sleep, as its input says. @param {() => void} [onStep] called when a step begins */
export function createAgent(onStep = () => {}) {
  return defineAgent({
    name: "runner",
    initial: (/** @type {string} */ how) => ({ how, log: /** @type {string[]} */ ([]) }),
    receive: (state, /** @type {string} */ how) => ({ ...state, how }),
    async step(run) {
      onStep();
      run.state.log.push(await run.llm(() => "reply ".repeat(60)));
      await run.tool({ id: "call", name: "pay", arguments: { sum: 5 } }, () => ({ paid: true }));
      if (run.state.how === "ask")
        run.state.log.push(String(await run.ask({ text: "Go?", data: { at: new Date(5) } })));
      if (run.state.how === "sleep") await run.sleep("30d");
      if (run.state.how === "hang") {
        await run.tool(
          { id: "stuck", name: "mail", arguments: {} },
          () => new Promise((resolve) => setTimeout(resolve, 1e8)),
        );
      }
      return run.complete("done");
    },
  });
}

/** Runs of every status. One stays in flight, and its process must end without closing the store. @param {Savepoint} sp */
async function fillRuns(sp) {
  const agent = createAgent();
  await sp.run(agent, { session: "run-done", input: "end", key: "k" });
  await sp.run(agent, { session: "run-asks", input: "ask" });
  await sp.run(agent, { session: "run-answered", input: "ask" });
  await sp.answer("run-answered", { yes: true });
  await sp.run(agent, { session: "run-sleeps", input: "sleep" });
  await sp.enqueue(agent, { session: "run-queued", input: "end", priority: 5 });
  await sp.send("run-done", "end", { key: "later" });
  const run = await sp.start(agent, { session: "run-hangs", input: "hang" });
  void run.result().catch(() => {});
  for (;;) {
    const entries = await sp.journal("run-hangs").all();
    if (entries.some((entry) => entry.name === "mail")) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** A store that an attacker can change. @param {Savepoint} sp */
export async function fillSubject(sp) {
  await fillSession(sp, "alpha");
  await fillScattered(sp, "scattered");
  await fillAgent(sp, "agent-a");
  await fillSession(sp, "beta", "agent-a");
  await sp.conversations.create({ id: "free", messages: [message.user("needle without an agent")] });
  await sp.session("deleted").save({ n: 1 });
  await sp.sessions.delete("deleted");
  await sp.retention.set({ session: "beta" }, { keepLast: 50 });
  await sp.search("order");
}

/** What must stay unchanged. @param {Savepoint} sp */
export async function fillVictim(sp) {
  await fillSession(sp, VICTIM);
  await fillAgent(sp, VICTIM_AGENT);
}

export { fillRuns };
