/** A store in which an attacker has put escape sequences and line breaks into every string. */
import { defineAgent, message, Savepoint } from "../../src/index.js";
import { openStore } from "../../src/store.js";
import { QUIET } from "../damage/world.js";

/** Clears the screen, changes the colour, rings the bell and begins a line of its own. */
export const EVIL = "\u001b[2J\u009b31m\u0007\r\nFORGED\u202e";

/** Parts of ids and labels. The library rejects control characters in them, so they are put into the store behind its back. */
const MARK = "QID";
const LABEL = "QLABEL";

/** What the attacker has changed behind the back of the library. */
export type Attack = "texts" | "ids" | "fields";

/** The ids in a store after an attack. */
export const idsOf = (attack: Attack): { session: string; waiting: string; agent: string; conversation: string } => {
  const mark = attack === "ids" ? EVIL : MARK;
  return { session: `${mark}-s`, waiting: `${mark}-w`, agent: `${mark}-a`, conversation: `${mark}-c` };
};

export async function createHostileStore(url: string, attack: Attack): Promise<void> {
  const sp = await Savepoint.open(url, { durability: "process", on: QUIET });
  const session = sp.session(`${MARK}-s`, { agent: `${MARK}-a` });
  const state = { [EVIL]: EVIL, list: Array.from({ length: 30 }, () => EVIL), deep: { [EVIL]: [EVIL] } };
  const fields = { label: LABEL, description: EVIL, resumeHint: EVIL, reason: EVIL, metadata: { [EVIL]: EVIL } };
  const first = await session.save(state, { ...fields, status: "failed" });
  await session.save({ ...state, [`${EVIL}2`]: EVIL }, fields);
  await session.fork(first.id, { branch: `${MARK}-b` });
  await sp.agents.save({
    id: `${MARK}-a`,
    name: EVIL,
    type: EVIL,
    systemPrompt: EVIL,
    capabilities: [EVIL],
    config: { [EVIL]: EVIL },
    state,
  });
  await sp.conversations.create({
    id: `${MARK}-c`,
    agent: `${MARK}-a`,
    title: EVIL,
    tags: [LABEL],
    messages: [message.user(EVIL), { role: EVIL, content: EVIL }],
  });
  await sp.checkpoints.create({ agent: `${MARK}-a`, label: LABEL });
  const agent = defineAgent({
    name: `${MARK}-a`,
    initial: () => state,
    async step(run) {
      await run.effect(EVIL, () => EVIL);
      await run.effect(`failing ${EVIL}`, () => Promise.reject(new Error(EVIL))).catch(() => {});
      await run.ask(EVIL);
      return { state, done: true };
    },
  });
  await sp.run(agent, { session: `${MARK}-w`, input: { [EVIL]: EVIL } });
  await sp.close();
  await rewriteRecords(url, attack);
}

/** Replaces labels in all records, and ids or fields with fixed values. Checksums fit: the store itself writes them. */
async function rewriteRecords(url: string, attack: Attack): Promise<void> {
  const rewrite = (text: string): string => {
    const labelled = text.replaceAll(LABEL, EVIL);
    if (attack === "ids") return labelled.replaceAll(MARK, EVIL);
    return attack === "fields" && FIELDS.has(text) ? text + EVIL : labelled;
  };
  const store = await openStore(url, { durability: "process" });
  for (const record of await store.list({ from: "", to: "\u{10ffff}" }, { limit: 10_000 })) {
    if (!("value" in record)) continue;
    const put = { key: rewrite(record.key), value: rewriteLines(record.value, rewrite), refs: record.refs };
    if (put.key !== record.key || put.value !== record.value)
      await store.commit({ deletes: [record.key], puts: [put] });
  }
  await store.close();
}

/** Values of fields with a fixed set of values: status, kind and trigger of checkpoints, kinds of questions. */
const FIELDS: ReadonlySet<string> = new Set(["failed", "waiting", "automatic", "ask", "start"]);

/** Rewrites each line of a record: JSON, or an id. */
function rewriteLines(value: string, rewrite: (text: string) => string): string {
  return value
    .split("\n")
    .map((line) => rewriteJson(line, rewrite))
    .join("\n");
}

function rewriteJson(line: string, rewrite: (text: string) => string): string {
  if (!/^["{[]/.test(line)) return rewrite(line);
  const walk = (value: unknown, key?: string): unknown => {
    if (typeof value === "string") return rewriteJson(value, rewrite);
    // The number of a step.
    if (typeof value === "number" && key === "s" && rewrite("failed") !== "failed") return EVIL;
    if (Array.isArray(value)) return value.map((each) => walk(each));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [rewrite(name), walk(each, name)]));
  };
  try {
    return JSON.stringify(walk(JSON.parse(line)));
  } catch {
    return rewrite(line);
  }
}
