/** Encrypted stores for tests, with everything that has content. */
import { defineAgent, type EncryptionOptions, Savepoint } from "../../src/index.js";
import { openMemoryStore, type Store } from "../../src/store.js";
import { overrideStore } from "../../src/store/shared/store-view.js";

export const key = (byte: number): Uint8Array => new Uint8Array(32).fill(byte);
export const OLD = key(1);
export const NEW = key(2);

/** A text that occurs nowhere else. */
export const CANARY = "canary-4111-1111-1111-1111";

const shop = defineAgent({
  name: "shop",
  initial: ({ card }: { card: string }) => ({ card, done: "" }),
  async step(run) {
    const paid = await run.tool(
      { id: "c1", name: "pay", arguments: { card: run.state.card } },
      async () => `paid ${CANARY}`,
    );
    return run.complete((await run.ask(`Was ${CANARY} charged? ${paid}`)) as string);
  },
});

/** Saves the canary in every kind of data. */
export async function fill(sp: Savepoint): Promise<void> {
  const session = sp.session("order", { agent: "shop-floor" });
  const messages = Array.from({ length: 40 }, (_, n) => ({ role: "user", content: `${CANARY} ${n}` }));
  const saved = await session.save({ messages, card: CANARY }, { label: "first", metadata: { note: CANARY } });
  await session.append("/messages", [{ role: "assistant", content: `charged ${CANARY}` }]);
  await session.save({ messages: [], card: CANARY, scan: scanOf(CANARY) });
  await session.save({ messages: [], card: CANARY, scan: scanOf(CANARY), more: 1 });
  await session.annotate(saved.id, "review", () => ({ by: CANARY }));
  await session.label(saved.id, "checked");
  await session.fork(saved.id, { branch: "what-if" });
  await sp.run(shop, { session: "run", input: { card: CANARY } });
  await sp.send("run", `later ${CANARY}`, { key: "k" });
  await sp.agents.save({
    id: "shop-floor",
    name: "Shop",
    type: "worker",
    systemPrompt: CANARY,
    state: { note: CANARY },
  });
  const talk = await sp.conversations.create({ agent: "shop-floor", title: `about ${CANARY}`, tags: ["t"] });
  await sp.conversations.append(talk.id, [{ role: "user", content: `${CANARY} and more` }]);
  await sp.conversations.append(talk.id, [{ role: "assistant", content: `${CANARY} again` }]);
  await sp.checkpoints.create({ agent: "shop-floor" });
}

/** Bytes that are stored as an attachment. */
export function scanOf(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text.repeat(400)));
}

/** What {@link fill} has saved, as it can be read. */
export async function contentOf(sp: Savepoint): Promise<unknown> {
  const sessions: unknown[] = [];
  for (const id of ["order", "run"]) {
    const session = sp.session(id);
    const history = [];
    for await (const { seq, label, status } of session.history({ allBranches: true }))
      history.push({ seq, label, status });
    const states = await Promise.all(
      history.map(async ({ seq }) => (await sp.checkpoints.find(`${id}#${seq}`)) && seq),
    );
    sessions.push({ id, state: (await session.latest())?.state, history, states });
  }
  const conversations: unknown[] = [];
  for await (const { id, title } of sp.conversations.list()) {
    conversations.push({ title, messages: (await sp.conversations.load(id))?.messages.map(({ content }) => content) });
  }
  const hits = (await sp.search(CANARY)).length;
  const { ok, problems } = await sp.verify({ deep: true });
  return { sessions, conversations, hits, ok, problems, agent: (await sp.agents.load("shop-floor"))?.state };
}

export const open = (store: Store | string, encryption?: EncryptionOptions): Promise<Savepoint> =>
  Savepoint.open(store, encryption && { encryption });

/** A store that stays when a Savepoint on it is closed. */
export function memory(): Store {
  return openMemoryStore();
}

/** A store whose commits fail from the n-th on, like those of a process that was killed. */
export function dyingStore(store: Store, commits: number): Store {
  let left = commits;
  const attempt =
    <Args extends unknown[], Result>(work: (...args: Args) => Promise<Result>) =>
    async (...args: Args): Promise<Result> => {
      if (left-- <= 0) throw new Error("killed");
      return work(...args);
    };
  return overrideStore(store, {
    commit: attempt((commit) => store.commit(commit)),
    retain: attempt((...args) => store.retain(...args)),
    dropBlobs: attempt((...args) => store.dropBlobs(...args)),
    compact: attempt(() => store.compact()),
    texts: undefined,
  });
}

/** Everything in a store, as its bytes. */
export async function everythingIn(store: Store): Promise<string> {
  const all = { from: "", to: "\u{10ffff}" };
  const parts: string[] = [];
  for (const record of await store.list(all, { limit: 100_000 })) parts.push(JSON.stringify(record));
  for (const tape of await store.tapes(all)) {
    for (const item of await store.items([{ tape, start: 0, count: 300 }]))
      if ("json" in item) parts.push(item.json, item.refs);
  }
  for (const hash of await store.blobs({ after: "", limit: 1_000 })) {
    const bytes = await store.blob(hash);
    if (!("unreadable" in bytes)) parts.push(hash, Buffer.from(bytes).toString("latin1"));
  }
  return parts.join("\n");
}
