// Operations on a store, executed once by a process that dies in them and once by one that does not: the same functions,
// with the build of the package in children and with its sources in the tests.

/** @typedef {import("savepoint").Savepoint} Savepoint */
/** @typedef {import("savepoint").Message} Message */

/**
 * @typedef {object} Operation
 * @property {(sp: Savepoint) => Promise<unknown>} run returns what can be compared: nothing that chance decides
 * @property {number} [commits] in how many visible steps it is done, where that is not one
 * @property {boolean} [unsearched] begin with a store in which nothing was ever searched
 * @property {boolean} [statements] die at SQL statements instead: what it does passes few of the named points, or none
 * @property {(sp: Savepoint) => Promise<void>} [first] what is done, and acknowledged, right before it
 */

/** Long ago, so that unused data may be freed. */
export const TEMPLATE_TIME = 1_700_000_000_000;
/** The time of all operations, in every process. */
export const NOW = TEMPLATE_TIME + 86_400_000;

/** Every text has a unique word by which it can be searched. */
export const WORDS = `
  anchor basket copper desert engine feather garden harbor island jungle kettle ladder marble needle orchid pepper quartz
  ribbon saddle timber umbrella velvet walnut xylophone renamed nowhere`
  .trim()
  .split(/\s+/);

/** @param {string} content @param {number} [bytes] @returns {Message} */
function said(content, bytes) {
  if (bytes === undefined) return { role: "user", content };
  const file = new Uint8Array(bytes).map((_, index) => (index * bytes) % 251);
  return { role: "user", content, attachments: [{ type: "file", name: `${bytes}.bin`, content: file }] };
}

/** @param {string} content @returns {Message} */
const answered = (content) => ({ role: "assistant", content });

/** A store with data of every kind. @param {Savepoint} sp */
export async function fillTemplate(sp) {
  const { agents, checkpoints, conversations } = sp;
  await agents.save({ id: "support", name: "Support", type: "gpt", state: { solved: 0, notes: ["a"] } });
  await conversations.create({ id: "orders", agent: "support", tags: ["orders"], messages: [said("anchor", 5000)] });
  await conversations.append("orders", [answered("basket"), said("copper"), answered("desert")]);
  await conversations.create({ id: "old", agent: "support", messages: [said("engine", 6000), answered("feather")] });
  await conversations.create({ id: "cut", agent: "support", messages: [said("garden", 7000), answered("harbor")] });
  await checkpoints.create({ agent: "support", label: "first" });
  await agents.update("support", { state: { solved: 1, notes: ["a", "b"] }, systemPrompt: "Be kind." });
  await conversations.save({ id: "cut", messages: [answered("harbor"), said("island")] });
  await checkpoints.create({ agent: "support", label: "second", metadata: { why: "between" } });
  await conversations.delete("old");
  await conversations.create({ id: "new", agent: "support", messages: [said("jungle"), said("kettle", 5000)] });
  await conversations.append("orders", [said("ladder")]);
  await checkpoints.create({ agent: "support", label: "third", pinned: true });
  await agents.update("support", { capabilities: ["refunds"] });

  await agents.save({ id: "sales", name: "Sales", state: { sold: 1 } });
  await sp.autoCheckpoints.set({ agent: "sales" }, { max: 2 });
  await conversations.create({ id: "offer", agent: "sales", messages: [said("marble"), answered("needle")] });
  await checkpoints.create({ agent: "sales" });
  await conversations.create({ id: "stray", messages: [said("orchid", 8000), answered("pepper")] });
  await conversations.create({ id: "spare", messages: [said("quartz"), answered("ribbon")] });
  await conversations.save({ id: "spare", messages: [answered("ribbon")] });

  const desk = sp.session("desk", { agent: "support" });
  await desk.save({ messages: [said("saddle")], n: 1 });
  const { id } = await desk.save({ messages: [said("saddle"), answered("timber")], n: 2 }, { label: "two" });
  await desk.fork(id, { branch: "what-if" });
  await sp.session("till", { agent: "sales" }).save({ messages: [said("umbrella")] });
  await sp.autoCheckpoints.set({ session: "desk" }, { max: 2 });
  for (const n of [3, 4]) await desk.save({ messages: [said("saddle")], n }, { kind: "automatic" });
  await sp.sessions.delete("till");
  await sp.session("till", { agent: "sales" }).save({ messages: [said("umbrella")], n: 2 });
}

/** Executed and acknowledged before every operation: leaves commits in the write buffer. @param {Savepoint} sp */
export async function warmUp(sp) {
  for (const warm of [1, 2]) {
    await sp.agents.update("support", { metadata: { warm } });
    await sp.session("till").save({ messages: [said("umbrella")], warm });
    await sp.conversations.append("orders", [said(`warm ${warm}`)]);
  }
}

/** @param {Savepoint} sp @param {string} label */
async function checkpointWith(sp, label) {
  const all = await sp.checkpoints.list({ agent: "support", of: "agent" }).all();
  return all.find((info) => info.label === label)?.id ?? "none";
}

/** @type {Record<string, Operation>} */
export const operations = {
  "conversations.create": {
    run: async (sp) => {
      const messages = [said("velvet", 9000), answered("walnut"), said("xylophone", 5000)];
      return sp.conversations.create({ id: "fresh", agent: "support", tags: ["a", "b"], metadata: { n: 1 }, messages });
    },
  },
  "conversations.append": {
    run: async (sp) => {
      const entries = await sp.conversations.append("orders", [said("velvet", 9000), answered("walnut")]);
      return entries.map(({ text }) => text);
    },
  },
  "conversations.save": {
    run: async (sp) => {
      const messages = [said("velvet", 9000), said("copper"), said("walnut"), said("anchor", 5000)];
      return sp.conversations.save({ id: "orders", title: "renamed", messages });
    },
  },
  "conversations.rename": { run: async (sp) => sp.conversations.rename("orders", "renamed") },
  "conversations.delete": { run: async (sp) => sp.conversations.delete("orders") },
  "conversations.delete, of no agent": { run: async (sp) => sp.conversations.delete("stray") },
  "conversations.delete, with a checkpoint before it": {
    run: async (sp) => sp.conversations.delete("offer"),
    commits: 2,
  },
  "agents.save, the first": {
    run: async (sp) => sp.agents.save({ id: "fresh", name: "Fresh", config: { a: 1 }, state: { list: ["x"] } }),
  },
  "agents.save, a later one": {
    run: async (sp) =>
      sp.agents.save({ id: "support", name: "Other", state: { solved: 9, long: "velvet ".repeat(99) } }),
  },
  "agents.update": {
    run: async (sp) =>
      sp.agents.update("support", ({ state }) => ({ state: { ...state, updated: true }, type: "new" })),
  },
  "agents.delete": { run: async (sp) => sp.agents.delete("support") },
  "agents.delete, statement by statement,": { run: async (sp) => sp.agents.delete("support"), statements: true },
  "checkpoints.create": {
    run: async (sp) => (await sp.checkpoints.create({ agent: "support", label: "fourth", metadata: { n: 4 } })).label,
  },
  "checkpoints.delete": { run: async (sp) => sp.checkpoints.delete(await checkpointWith(sp, "second")) },
  "checkpoints.restore": {
    run: async (sp) => {
      const { restored, recreated, removed } = await sp.checkpoints.restore(await checkpointWith(sp, "first"));
      return { restored, recreated, removed };
    },
  },
  "session.save, with more automatic ones than are wanted": {
    run: async (sp) => (await sp.session("desk").save({ messages: [said("velvet")] }, { kind: "automatic" })).kind,
    commits: 2,
  },
  "the first search": { run: async (sp) => found(sp, "harbor"), commits: 0, statements: true, unsearched: true },
  "a later search": {
    first: async (sp) => {
      await sp.conversations.save({ id: "orders", messages: [said("velvet"), answered("basket")] });
      await sp.conversations.delete("new");
      await sp.conversations.append("cut", [said("walnut")]);
      await sp.session("desk").save({ messages: [said("xylophone")] });
    },
    run: async (sp) => found(sp, "basket"),
    commits: 0,
    statements: true,
  },
  compact: {
    first: async (sp) => {
      await sp.conversations.save({ id: "orders", messages: [answered("basket")] });
      await sp.conversations.save({ id: "spare", messages: [said("velvet")] });
      await sp.conversations.delete("new");
      await sp.checkpoints.delete(await checkpointWith(sp, "first"));
    },
    run: async (sp) => void (await sp.compact()),
    commits: 0,
    statements: true,
  },
};

/** The conversations and sessions in which the word is found. @param {Savepoint} sp @param {string} word */
export async function found(sp, word) {
  const hits = await sp.search(word, { limit: 1000 });
  return hits.map(({ source, id, branch }) => [source, id, ...(branch === undefined ? [] : [branch])].join(" ")).sort();
}
