/** All that the public API returns about a session or an agent, as one value. */

/** @typedef {import("savepoint").Savepoint} Savepoint */

/** @param {Savepoint} sp @param {string} id */
export async function readSession(sp, id) {
  const session = sp.session(id);
  const history = await session.history({ allBranches: true, order: "oldest" }).all();
  const branches = await session.branches().all();
  /** @type {Record<string, unknown>} */
  const states = {};
  for (const { id: checkpoint } of history) states[checkpoint] = await session.load(checkpoint);
  /** @type {Record<string, unknown>} */
  const lines = {};
  for (const { name } of branches) {
    const branch = sp.session(id, { branch: name });
    const line = await branch.history().all();
    lines[name] = { latest: await branch.latest(), history: line.map((info) => info.id) };
  }
  const annotations = await session.annotations(0, 1000);
  return { info: await sp.sessions.load(id), history, branches, states, lines, annotations };
}

/** @param {Savepoint} sp @param {string} agent */
export async function readAgent(sp, agent) {
  const conversations = [];
  for (const info of await sp.conversations.list({ agent }).all()) {
    conversations.push({ info, loaded: await sp.conversations.load(info.id) });
  }
  const checkpoints = [];
  for (const info of await sp.checkpoints.list({ agent, of: "agent" }).all()) {
    const loaded = await sp.checkpoints.load(info.id);
    const past = [];
    for (const { id } of loaded && "conversations" in loaded ? loaded.conversations : []) {
      past.push(await sp.conversations.load(id, { at: info.id }));
    }
    checkpoints.push({ info, loaded, past });
  }
  return { agent: await sp.agents.load(agent), conversations, checkpoints };
}
