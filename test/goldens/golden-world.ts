/** What the golden stores have, and what the public API returns of it. */
import { createHash } from "node:crypto";
import { type Attachment, defineAgent, message, Savepoint } from "../../src/index.js";
import { wholeOf } from "../bundle/whole.js";
import { defineClerk, FILLED_AT } from "./clerk.mjs";

/** Fills a store with something of everything, but for runs that were killed. */
export async function fillGolden(url: string): Promise<void> {
  const sp = await Savepoint.open(url, { durability: "process", now: () => FILLED_AT });
  try {
    await fillSession(sp);
    await fillAgent(sp);
    const clerk = defineClerk(defineAgent, { model: () => {}, tool: () => {} });
    await sp.run(clerk, { session: "completed", input: { todo: 2 } });
    await sp.run(clerk, { session: "asks", input: { todo: 3, ask: true } });
    await sp.enqueue("clerk", { session: "enqueued", input: { todo: 1 } });
  } finally {
    await sp.close();
  }
}

async function fillSession(sp: Savepoint): Promise<void> {
  const session = sp.session("trip", { agent: "planner" });
  const messages = Array.from({ length: 90 }, (_, n) => ({ role: "user", content: `order ${n} ${"x".repeat(40)}` }));
  const values = {
    map: new Map<unknown, unknown>([
      ["a", new Date(5)],
      [new Date(7), 10n ** 30n],
    ]),
    set: new Set([1, "two", 3n]),
    bytes: Uint8Array.from({ length: 1500 }, (_, n) => (n * 7919) % 251),
    odd: [undefined, -0, Number.NaN, Number.POSITIVE_INFINITY, "\ud83d\ude00 \u0001 \u2028"],
    text: "long ".repeat(2000),
    keys: Object.fromEntries(Array.from({ length: 40 }, (_, n) => [`key ${n}`, n])),
  };
  const first = await session.save({ messages: messages.slice(0, 40), values }, { label: "first", pinned: true });
  const second = await session.append("/messages", messages.slice(40), {
    description: "all messages",
    metadata: { who: "me", when: new Date(9) },
    usage: { tokens: 7, cost: 0.5 },
  });
  await session.save({ messages: messages.slice(5, 30) }, { id: "chosen" });
  await session.rewind(second.id);
  await session.fork(first.id, { branch: "side", state: { messages: [], values: 1n } });
  await session.save({ messages: [...messages, { role: "assistant", content: "hay" }] });
}

async function fillAgent(sp: Savepoint): Promise<void> {
  const content = Uint8Array.from({ length: 1200 }, (_, n) => n % 256);
  const attachment: Attachment = { type: "file", name: "f", content };
  await sp.agents.save({ id: "planner", name: "Planner", state: { solved: 1, map: new Map([[1, 2n]]) } });
  await sp.conversations.create({
    id: "kept",
    agent: "planner",
    messages: [message.user("a needle", { attachments: [attachment] })],
  });
  await sp.conversations.create({ id: "gone", agent: "planner", messages: [message.user("needle in what is gone")] });
  const { id } = await sp.checkpoints.create({ agent: "planner", label: "first", pinned: true });
  await sp.conversations.delete("gone");
  await sp.conversations.append("kept", [message.assistant("Here it is.")]);
  await sp.conversations.tag("kept", ["x", "y"]);
  await sp.agents.save({ id: "planner", name: "Planner", state: { solved: 2 } });
  await sp.checkpoints.create({ agent: "planner", description: "second" });
  await sp.checkpoints.restore(id);
}

/** From here on only a hash of a string, or of the elements of a list, is compared. */
const LONG = 100;
const MANY = 20;

function shorten(what: string, value: string | Uint8Array): string {
  return `${value.length} ${what}, SHA-256 ${createHash("sha256").update(value).digest("hex").slice(0, 16)}`;
}

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g;

/**
 * All that the public API returns, as a value that is the same for every store: ids that were made at random are named by
 * the order in which they appear, and sizes, which depend on the store, are left out.
 */
export async function describeStore(sp: Savepoint): Promise<unknown> {
  const names = new Map<string, string>();
  const rename = (text: string): string =>
    text.replaceAll(UUID, (id) => {
      if (!names.has(id)) names.set(id, `id-${names.size + 1}`);
      return names.get(id) as string;
    });
  const visit = (value: unknown): unknown => {
    if (typeof value === "string") return value.length > LONG ? shorten("text", value) : rename(value);
    if (value instanceof Uint8Array) return shorten("bytes", value);
    if (Array.isArray(value)) {
      const all = value.map(visit);
      return all.length > MANY ? [...all.slice(0, 2), shorten("characters of JSON", JSON.stringify(all))] : all;
    }
    if (value instanceof Map) return new Map([...value].map(([key, each]) => [visit(key), visit(each)]));
    if (value === null || typeof value !== "object" || Object.getPrototypeOf(value) !== Object.prototype) return value;
    return Object.fromEntries(
      Object.entries(value)
        .filter(([key]) => key !== "storedBytes")
        .map(([key, each]) => [rename(key), visit(each)]),
    );
  };
  return visit(await wholeOf(sp));
}
