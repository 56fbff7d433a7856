/** A pooler in transaction mode stands between Savepoint and the server. */
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from "vitest";
import { defineAgent, message, Savepoint } from "../../src/index.js";
import { openPostgresStore } from "../../src/store.js";
import { type Pooler, startPooler } from "./pooler.js";
import { dropSchema, newPostgresUrl } from "./schemas.js";

let pooler: Pooler;
beforeAll(async () => {
  pooler = await startPooler(inject("postgresUrl"));
});
afterAll(() => pooler.close());

const undo: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each();
});

function newUrl(): string {
  const direct = newPostgresUrl();
  undo.push(() => dropSchema(direct));
  const url = new URL(pooler.url);
  url.search = new URL(direct).search;
  return url.href;
}

// The server of the tests does not wait for its disk, and would be told of each time.
const options = { onBackgroundFailure: () => {} };

const clerk = defineAgent({
  name: "clerk",
  initial: (input: { steps: number }) => ({ left: input.steps, done: [] as string[] }),
  async step(run) {
    const said = await run.tool({ id: `c${run.step}`, name: "work", arguments: {} }, () => `did ${run.step}`);
    run.state.done.push(said);
    if (--run.state.left === 0) return run.complete(run.state.done.length);
  },
});

describe("behind a pooler in transaction mode", () => {
  it("a store stops preparing statements and does not fail", async () => {
    const url = newUrl();
    const before = pooler.prepared;
    const sp = await Savepoint.open(url, options);
    undo.push(() => sp.close());
    const session = sp.session<{ steps: number[] }>("s");
    for (let step = 0; step < 30; step++) await session.save({ steps: Array.from({ length: step }, (_, at) => at) });
    // It was tried, and given up.
    expect(pooler.prepared - before).toBeGreaterThan(0);
    expect(pooler.prepared - before).toBeLessThan(5);
    expect((await session.latest())?.state.steps).toHaveLength(29);
    expect((await session.history().all()).length).toBe(30);
  });

  it("concurrent saves through several handles succeed", async () => {
    const url = newUrl();
    const handles = await Promise.all([1, 2, 3].map(() => Savepoint.open(url, options)));
    for (const sp of handles) undo.push(() => sp.close());
    await Promise.all(
      handles.flatMap((sp, handle) =>
        Array.from({ length: 10 }, async (_, number) => {
          const session = sp.session(`s${handle} ${number}`);
          for (let step = 0; step < 10; step++) await session.save({ step });
        }),
      ),
    );
    const sessions = await (handles[0] as Savepoint).sessions.list().all();
    expect(sessions).toHaveLength(30);
  });

  it("searching, compacting and verifying a store work", async () => {
    const sp = await Savepoint.open(newUrl(), options);
    undo.push(() => sp.close());
    for (let number = 0; number < 5; number++) {
      const { id } = await sp.conversations.create({ agent: "ada" });
      await sp.conversations.append(id, [message.user(`needle ${number}`)]);
    }
    expect(await sp.search("needle")).toHaveLength(5);
    await sp.compact();
    expect((await sp.verify()).problems).toEqual([]);
  });

  it("workers run queued sessions although no notification reaches them", async () => {
    const sp = await Savepoint.open(newUrl(), { ...options, lease: "2s" });
    undo.push(() => sp.close());
    const worker = sp.worker([clerk], { signals: false, poll: "50ms" });
    await worker.start();
    for (let number = 0; number < 8; number++) await sp.enqueue(clerk, { session: `s${number}`, input: { steps: 3 } });
    for (let number = 0; number < 8; number++) {
      for await (const event of sp.watch(`s${number}`)) void event;
      expect((await sp.sessions.load(`s${number}`))?.status).toBe("completed");
    }
    await worker.stop();
  });
});

describe("a pool of the caller's own that gives each statement another connection", () => {
  it("is sufficient for commits that depend on each other", async () => {
    const url = newPostgresUrl();
    undo.push(() => dropSchema(url));
    const schema = new URL(url).searchParams.get("schema") as string;
    const pool = new pg.Pool({ connectionString: inject("postgresUrl"), maxUses: 1 });
    undo.push(() => pool.end());
    const store = await openPostgresStore(pool, { ...options, schema });
    undo.push(() => store.close());
    for (let step = 0; step < 10; step++) {
      await store.commit({
        checks: [{ key: "a", value: step === 0 ? undefined : String(step - 1) }],
        puts: [{ key: "a", value: String(step) }],
      });
    }
    expect(await store.get(["a"])).toEqual([{ key: "a", value: "9", refs: "" }]);
  });
});
