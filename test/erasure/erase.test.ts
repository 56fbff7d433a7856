/** What is erased is gone: from every file of a store, from its tables and from its search index. */
import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type AgentCheckpoint, defineAgent, message, Savepoint } from "../../src/index.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { borrowMigratedUrl, returnMigratedUrl } from "../postgres/schemas.js";

const SECRET = "canary-4111-1111";
const OTHER = "canary-of-another-session";

/** Bytes that compression does not hide the text in. */
const bytesWith = (text: string): Uint8Array =>
  new Uint8Array(Buffer.concat([randomBytes(3000), Buffer.from(text), randomBytes(3000)]));

let folder: string;
let opened: Savepoint[];

beforeEach(async () => {
  folder = await makeFolder();
  opened = [];
});

afterEach(async () => {
  for (const sp of opened) await sp.close();
  await removeFolder(folder);
});

async function open(url: string, options: Parameters<typeof Savepoint.open>[1] = {}): Promise<Savepoint> {
  const sp = await Savepoint.open(url, { durability: "process", ...options });
  opened.push(sp);
  return sp;
}

/** The files of a folder that contain a text. */
function filesWith(root: string, text: string): string[] {
  const paths = readdirSync(root, { recursive: true, encoding: "utf8" }).map((name) => join(root, name));
  return paths.filter((path) => statSync(path).isFile() && readFileSync(path).includes(text));
}

/** A state with the text where states have it: in a small part, in items, in a large string, in bytes and in a map. */
function stateWith(text: string): Record<string, unknown> {
  return {
    card: text,
    messages: Array.from({ length: 80 }, (_, n) => ({ role: "user", content: `${text} ${n}` })),
    log: `${text} `.repeat(2000),
    scan: bytesWith(text),
    map: new Map(Array.from({ length: 40 }, (_, n) => [`key ${n}`, text])),
  };
}

const shop = defineAgent({
  name: "shop",
  initial: ({ text }: { text: string }) => ({ text }),
  async step(run) {
    const { text } = run.state as { text: string };
    await run.tool({ id: "c1", name: "pay", arguments: { text } }, async () => `paid ${text}`);
    return run.complete(await run.ask(`Was ${text} paid?`));
  },
});

/** Fills a store: what is to be erased, and what stays. */
async function fill(sp: Savepoint): Promise<void> {
  for (const [id, text] of [
    ["a", SECRET],
    ["b", OTHER],
  ] as const) {
    const session = sp.session(id);
    const first = await session.save(stateWith(text));
    await session.annotate(first.id, "note", () => ({ text }));
    await session.append("/messages", [{ role: "assistant", content: `again ${text}` }]);
    await (await session.fork(first.id, { branch: "other" })).save({ text: `${text} on another branch` });
    await session.save({ text, messages: [{ role: "user", content: text }] });
    await sp.run(shop, { session: `run-${id}`, input: { text } });
  }
}

describe.each([
  ["sqlite:", (root: string) => `sqlite:${join(root, "store.db")}`],
  ["file:", (root: string) => `file:${join(root, "store")}`],
])("%s", (_, urlIn) => {
  it("has no byte of an erased session in any file, and loses nothing else", async () => {
    const root = join(folder, "data");
    const sp = await open(urlIn(root));
    await fill(sp);
    expect((await sp.search(SECRET)).length).toBeGreaterThan(0);
    expect(filesWith(root, SECRET)).not.toEqual([]);
    const kept = (await sp.session("b").latest())?.state;

    for (const id of ["a", "run-a"]) {
      const report = await sp.erase({ session: id });
      expect(report).toMatchObject({ sessions: 1, conversations: 0, agents: 0, pending: [], backups: [] });
    }
    expect(filesWith(root, SECRET)).toEqual([]);
    expect(await sp.search(SECRET)).toEqual([]);
    expect((await sp.search(OTHER)).length).toBeGreaterThan(0);
    await sp.close();
    expect(filesWith(root, SECRET)).toEqual([]);

    const again = await open(urlIn(root));
    expect(await again.session("a").latest()).toBeUndefined();
    expect((await again.session("b").latest())?.state).toEqual(kept);
    expect((await again.session("run-b").latest())?.state).toMatchObject({ text: OTHER });
    expect((await again.verify({ deep: true })).ok).toBe(true);
  });

  it("removes data that an earlier deletion has left, although the session no longer exists", async () => {
    const root = join(folder, "data");
    const sp = await open(urlIn(root));
    await fill(sp);
    await sp.sessions.delete("a");
    await sp.sessions.delete("run-a");
    expect(filesWith(root, SECRET), "a deletion alone does not overwrite").not.toEqual([]);
    expect(await sp.erase({ session: "a" })).toMatchObject({ sessions: 0, pending: [] });
    expect(filesWith(root, SECRET)).toEqual([]);
  });

  it("erases an agent with its conversations, sessions and checkpoints", async () => {
    const root = join(folder, "data");
    const sp = await open(urlIn(root));
    await sp.agents.save({ id: "support", name: SECRET, state: stateWith(SECRET) });
    const { id } = await sp.conversations.create({ agent: "support", title: `About ${SECRET}` });
    await sp.conversations.append(id, [message.user(SECRET)]);
    await sp.session("s", { agent: "support" }).save(stateWith(SECRET));
    await sp.checkpoints.create({ agent: "support" });
    await sp.session("b").save(stateWith(OTHER));
    expect(await sp.erase({ agent: "support" })).toMatchObject({ agents: 1, conversations: 1, sessions: 1 });
    expect(filesWith(root, SECRET)).toEqual([]);
    expect((await sp.session("b").latest())?.state).toMatchObject({ card: OTHER });
  });

  it("erases a conversation, also from the checkpoints of its agent, which can still be restored without it", async () => {
    const root = join(folder, "data");
    const sp = await open(urlIn(root));
    await sp.agents.save({ id: "support", name: "Support", state: { n: 0 } });
    const talks: string[] = [];
    for (const text of [SECRET, OTHER]) {
      const { id } = await sp.conversations.create({ agent: "support", title: `About ${text}` });
      const messages = Array.from({ length: 30 }, (_, n) => message.user(`${text} ${n}`));
      await sp.conversations.append(id, messages);
      talks.push(id);
    }
    const [secret, other] = talks as [string, string];
    const checkpoints = [];
    for (let n = 1; n <= 3; n++) {
      await sp.agents.save({ id: "support", name: "Support", state: { n } });
      await sp.conversations.append(secret, [message.user(`${SECRET} at ${n}`)]);
      checkpoints.push(await sp.checkpoints.create({ agent: "support", label: `c${n}` }));
    }
    await sp.agents.save({ id: "support", name: "Support", state: { n: 4 } });
    expect((await sp.conversations.search(SECRET)).length).toBe(1);

    const report = await sp.erase({ conversation: secret });
    expect(report).toMatchObject({ conversations: 1, checkpoints: 3, pending: [] });
    expect(filesWith(root, SECRET)).toEqual([]);
    expect(await sp.conversations.search(SECRET)).toEqual([]);
    for (const [index, { id }] of checkpoints.entries()) {
      const loaded = await sp.checkpoints.load(id);
      if (!("conversations" in (loaded ?? {}))) throw new Error("It is no checkpoint of an agent.");
      const { conversations, erased, state, label } = loaded as AgentCheckpoint;
      expect({ ids: conversations.map((each) => each.id), erased, state: state.state, label }).toEqual({
        ids: [other],
        erased: [secret],
        state: { n: index + 1 },
        label: `c${index + 1}`,
      });
    }
    const { erased } = await sp.checkpoints.restore((checkpoints[0] as { id: string }).id);
    expect(erased).toEqual([secret]);
    expect((await sp.agents.load("support"))?.state).toEqual({ n: 1 });
    expect((await sp.conversations.load(other))?.messages).toHaveLength(30);
    expect(await sp.conversations.load(secret)).toBeUndefined();
    expect((await sp.verify({ deep: true })).ok).toBe(true);
    // What is saved from now on does not claim that anything was erased from it.
    const next = await sp.checkpoints.create({ agent: "support" });
    expect(((await sp.checkpoints.load(next.id)) as AgentCheckpoint).erased).toEqual([]);
  });

  it("erases a conversation that was deleted before from the checkpoints that still contain it", async () => {
    const root = join(folder, "data");
    const sp = await open(urlIn(root));
    await sp.agents.save({ id: "support", name: "Support", state: {} });
    const { id } = await sp.conversations.create({ agent: "support" });
    await sp.conversations.append(id, [message.user(SECRET)]);
    await sp.checkpoints.create({ agent: "support" });
    await sp.conversations.delete(id);
    await sp.compact();
    expect(filesWith(root, SECRET)).not.toEqual([]);
    expect((await sp.erase({ conversation: id })).checkpoints).toBe(1);
    expect(filesWith(root, SECRET)).toEqual([]);
    expect((await sp.verify({ deep: true })).ok).toBe(true);
  });

  it("erases a conversation from the checkpoints of an agent that had one with the same id before", async () => {
    const root = join(folder, "data");
    const sp = await open(urlIn(root));
    for (const agent of ["first", "second"]) await sp.agents.save({ id: agent, name: agent, state: {} });
    await sp.conversations.create({ agent: "first", id: "c" });
    await sp.conversations.append("c", [message.user(SECRET)]);
    await sp.checkpoints.create({ agent: "first" });
    await sp.conversations.delete("c");
    await sp.conversations.create({ agent: "second", id: "c" });
    await sp.conversations.append("c", [message.user(OTHER)]);
    expect(await sp.erase({ conversation: "c" })).toMatchObject({ conversations: 1, checkpoints: 1, pending: [] });
    expect([...filesWith(root, SECRET), ...filesWith(root, OTHER)]).toEqual([]);
  });

  it("keeps an attachment that another session also has", async () => {
    const sp = await open(urlIn(join(folder, "data")));
    const scan = bytesWith(SECRET);
    await sp.session("a").save({ scan });
    await sp.session("b").save({ scan });
    expect((await sp.erase({ session: "a" })).blobs).toBe(0);
    expect((await sp.session("b").latest())?.state).toEqual({ scan });
    expect((await sp.erase({ session: "b" })).blobs).toBe(1);
  });

  it("erases while another Savepoint saves, and no save is lost", async () => {
    const url = urlIn(join(folder, "data"));
    const [sp, other] = [await open(url), await open(url)];
    await fill(sp);
    await other.session("busy").save({ log: [] });
    let done = false;
    let saved = 0;
    const saving = (async () => {
      while (!done) {
        await other.session("busy").append("/log", [{ n: saved }]);
        saved++;
      }
    })();
    await sp.erase({ session: "a" });
    done = true;
    await saving;
    const state = (await sp.session("busy").latest())?.state as { log: unknown[] };
    expect(state.log).toHaveLength(saved);
    expect((await sp.verify({ deep: true })).ok).toBe(true);
  });
});

describe("backups", () => {
  it("are recorded by path, and reported as long as they exist", async () => {
    const sp = await open(`sqlite:${join(folder, "store.db")}`);
    await fill(sp);
    const first = await sp.backup({ to: join(folder, "backups") });
    const second = await sp.backup({ to: join(folder, "backups") });
    const { backups } = await sp.erase({ session: "a" });
    expect(backups.map(({ path }) => path)).toEqual([first.path, second.path]);
    rmSync(first.path);
    expect((await sp.erase({ session: "a" })).backups.map(({ path }) => path)).toEqual([second.path]);
    const third = await sp.backup({ to: join(folder, "backups"), keep: 1 });
    expect((await sp.erase({ session: "a" })).backups.map(({ path }) => path)).toEqual([third.path]);
  });
});

describe("another process that reads", () => {
  it("is reported as pending, and erasing again completes the erasure", async () => {
    const path = join(folder, "store.db");
    const sp = await open(`sqlite:${path}`, { busyTimeout: 200 });
    await fill(sp);
    const reader = await openDatabase(path);
    reader.exec("BEGIN");
    reader.prepare("SELECT count(*) FROM savepoint_record").get();
    const report = await sp.erase({ session: "a" });
    expect(report.sessions).toBe(1);
    expect(report.pending).toHaveLength(1);
    expect(report.pending[0]).toContain("erase again");
    expect(filesWith(folder, SECRET)).not.toEqual([]);
    reader.exec("COMMIT");
    reader.close();
    await sp.erase({ session: "run-a" });
    expect((await sp.erase({ session: "a" })).pending).toEqual([]);
    expect(filesWith(folder, SECRET)).toEqual([]);
  });
});

describe("arguments", () => {
  it("must name exactly one thing", async () => {
    const sp = await open("memory:");
    for (const target of [{}, { session: "a", agent: "b" }, { sessions: "a" }, undefined]) {
      await expect(sp.erase(target as never)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    }
  });
});

describe("PostgreSQL", () => {
  it("has no erased text in any row of its tables", async () => {
    const url = await borrowMigratedUrl();
    const client = new pg.Client({ connectionString: url });
    try {
      await client.connect();
      const sp = await open(url);
      await fill(sp);
      await sp.search(SECRET);
      expect(await tablesWith(client, url, SECRET)).not.toEqual([]);
      const report = await sp.erase({ session: "a" });
      await sp.erase({ session: "run-a" });
      expect(report.pending).toEqual([]);
      expect(report.elsewhere[0]).toContain("write-ahead log");
      expect(await tablesWith(client, url, SECRET)).toEqual([]);
      expect(await tablesWith(client, url, OTHER)).not.toEqual([]);
      expect((await sp.verify({ deep: true })).ok).toBe(true);
      await sp.close();
    } finally {
      await client.end();
      await returnMigratedUrl(url);
    }
  });
});

/** The tables of a schema with a row that contains a text, as text or as bytes. */
async function tablesWith(client: pg.Client, url: string, text: string): Promise<string[]> {
  const schema = new URL(url).searchParams.get("schema");
  const { rows } = await client.query("SELECT tablename FROM pg_tables WHERE schemaname = $1", [schema]);
  const found: string[] = [];
  const hex = Buffer.from(text).toString("hex");
  for (const { tablename } of rows as { tablename: string }[]) {
    const table = `"${schema}"."${tablename}"`;
    const { rowCount } = await client.query(
      `SELECT 1 FROM ${table} AS t WHERE t::text LIKE $1 OR t::text LIKE $2 LIMIT 1`,
      [`%${text}%`, `%${hex}%`],
    );
    if (rowCount) found.push(tablename);
  }
  return found;
}
