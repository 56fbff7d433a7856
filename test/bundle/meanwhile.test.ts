/** Exports while other processes save, prune, rewind, fork and delete: every export can be imported, and loads. */
import assert from "node:assert/strict";
import { describe, expect, it } from "vitest";
import { isSavepointError, message, Savepoint } from "../../src/index.js";
import { FAST } from "../checkpoints/agent-data.js";
import { useData } from "../model/stores.js";
import { exportWithPause } from "./bytes.js";
import { PLACES, wholeOf } from "./whole.js";
import { runs } from "../support/runs.js";

const open = (): Promise<Savepoint> => Savepoint.open("memory:", { on: { damage: () => {} } });

/** Enough for several chunks of a stream. */
const LONG = Array.from({ length: 400 }, (_, n) => `${n} ${"x".repeat(400)}`);

/** Everything that is visible must load. */
async function loadAll(bundle: Uint8Array): Promise<Savepoint> {
  const sp = await open();
  const report = await sp.import(bundle);
  expect(report.holes).toEqual([]);
  for (let turn = 0; turn < 2; turn++) {
    const whole = await wholeOf(sp);
    assert.equal(JSON.stringify(whole["stats"]).includes("NaN"), false);
    for await (const { id } of sp.sessions.list()) {
      for await (const { name } of sp.session(id).branches()) {
        expect((await sp.session(id, { branch: name }).latest())?.skipped ?? []).toEqual([]);
      }
    }
    await sp.compact();
  }
  return sp;
}

describe.each(PLACES)("on $name", (kind) => {
  const data = useData(kind);

  it("exports made while other processes write can be imported, and load", async () => {
    const [sp, other] = [await data.open(FAST), await data.open(FAST)];
    await sp.agents.save({ id: "a", name: "A", state: { n: 0 } });
    for (const id of ["c", "d"]) await sp.conversations.create({ id, agent: "a", messages: [message.user("start")] });
    for (const id of ["s", "t", "u"]) await sp.session(id).save({ list: LONG.slice(0, 60) });
    const wanted = runs(24, 6);
    const bundles: Uint8Array[] = [];
    const tolerated = ["CONFLICT", "SESSION_DELETED", "CHECKPOINT_NOT_FOUND", "BRANCH_NOT_FOUND"] as const;
    const tolerant = async (work: Promise<unknown>): Promise<void> => {
      await work.catch((error: unknown) => {
        if (!tolerated.some((code) => isSavepointError(error, code))) throw error;
      });
    };
    const write = async (): Promise<void> => {
      for (let n = 0; bundles.length < wanted; n++) {
        const session = other.session<{ list: unknown[] }>(["s", "t"][n % 2] ?? "s");
        await tolerant(session.append("/list", [`${n} ${"y".repeat(100)}`]));
        if (n % 5 === 1) await tolerant(other.prune({ session: "s", keepLast: 3 }));
        if (n % 7 === 2)
          await tolerant(
            session
              .history()
              .all()
              .then((all) => session.rewind(all.at(-1)?.id ?? "")),
          );
        if (n % 9 === 3) await tolerant(session.head().then((head) => session.fork(head?.id ?? "")));
        if (n % 11 === 4) await tolerant(other.sessions.delete("u"));
        if (n % 11 === 8) await tolerant(other.session("u").save({ list: LONG.slice(n % 50, 100) }));
        if (n % 13 === 5) await tolerant(other.checkpoints.create({ agent: "a" }));
        if (n % 4 === 3) await other.conversations.append("c", [message.user(`said ${n}`)]);
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    const read = async (): Promise<void> => {
      while (bundles.length < wanted) {
        for (const target of [{}, { session: "s" }, { agent: "a" }]) {
          await tolerant(
            sp
              .export(target)
              .bytes()
              .then((bytes) => bundles.push(bytes)),
          );
        }
      }
    };
    await Promise.all([write(), read()]);
    for (const bundle of bundles.slice(0, 4).concat(bundles.slice(-4))) await loadAll(bundle);
  });
});

describe("an export that is read slowly", () => {
  it("contains no conversation whose number the importing store assigns again", async () => {
    const sp = await open();
    await sp.conversations.create({ id: "first", agent: "a", messages: LONG.map((text) => message.user(text)) });
    await sp.conversations.create({ id: "second", agent: "b", messages: [message.user("second")] });
    const bundle = await exportWithPause(sp.export(), () =>
      sp.conversations.create({ id: "third", agent: "b", messages: [message.user("third")] }),
    );
    const other = await open();
    await other.import(bundle);
    for (let n = 0; n < 3; n++) await other.conversations.create({ id: `${n}`, messages: [message.user(`${n}`)] });
    for (const id of ["second", "third", "0", "1", "2"]) {
      const loaded = await other.conversations.load(id);
      if (id !== "third" || loaded) expect(loaded?.messages).toEqual([message.user(id)]);
    }
    const listed = (await other.conversations.list().all()).map(({ id }) => id);
    expect(listed.filter((id) => id !== "third")).toEqual(["2", "1", "0", "second", "first"]);
  });

  it("contains no session whose number the importing store assigns again", async () => {
    const sp = await open();
    await sp.session("first").save({ list: LONG });
    await sp.session("second").save("old");
    const bundle = await exportWithPause(sp.export(), async () => {
      await sp.sessions.delete("second");
      await sp.session("second").save("new");
    });
    const other = await open();
    await other.import(bundle);
    for (let n = 0; n < 3; n++) await other.session(`${n}`).save(n);
    expect(await other.session("second").latest()).toMatchObject({ state: "new" });
    for (let n = 0; n < 3; n++) expect(await other.session(`${n}`).latest()).toMatchObject({ state: n });
    expect(
      (await other.sessions.list().all())
        .map(({ id }) => id)
        .slice()
        .sort(),
    ).toEqual(["0", "1", "2", "first", "second"]);
  });

  it("leaves out a session that is deleted while the store is exported", async () => {
    const sp = await open();
    await sp.session("gone").save({ list: LONG });
    await sp.session("stays").save({ list: [1] });
    const bundle = await exportWithPause(sp.export(), () => sp.sessions.delete("gone"));
    const loaded = await loadAll(bundle);
    expect((await loaded.sessions.list().all()).map(({ id }) => id)).toEqual(["stays"]);
    await loaded.close();
  });

  it("contains no head whose checkpoint is missing", async () => {
    const sp = await open();
    const session = sp.session<{ list: unknown }>("s");
    await session.save({ list: LONG });
    await session.save({ list: LONG.map((text) => `other ${text}`) });
    const bundle = await exportWithPause(sp.export({ session: "s" }), async () => {
      for (let n = 0; n < 3; n++) await session.save({ list: [n] });
      await session.prune({ keepLast: 1 });
      await sp.compact();
    });
    const other = await open();
    await other.import(bundle);
    const latest = await other.session("s").latest();
    expect(latest?.skipped).toEqual([]);
    expect(await other.session("s").load(latest?.id ?? "")).toBeDefined();
  });

  it("contains an agent that can be loaded", async () => {
    const sp = await open();
    await sp.agents.save({ id: "a", name: "A", state: { list: LONG } });
    const bundle = await exportWithPause(sp.export({ agent: "a" }), async () => {
      await sp.agents.save({ id: "a", name: "A", state: { list: [1] } });
      await sp.compact();
    });
    const other = await open();
    await other.import(bundle);
    expect((await other.agents.load("a"))?.skipped).toEqual([]);
  });

  it("contains conversations that can be loaded", async () => {
    const sp = await open();
    await sp.conversations.create({ id: "c", messages: LONG.map((text) => message.user(text)) });
    const bundle = await exportWithPause(sp.export(), async () => {
      await sp.conversations.save({ id: "c", messages: [message.user("only")] });
      await sp.compact();
    });
    const other = await open();
    expect((await other.import(bundle)).holes).toEqual([]);
    expect(await other.conversations.load("c")).toBeDefined();
  });

  it("fails if its session is deleted meanwhile", async () => {
    const sp = await open();
    await sp.session("s").save({ list: LONG });
    const work = exportWithPause(sp.export({ session: "s" }), () => sp.sessions.delete("s"));
    await expect(work).rejects.toMatchObject({ code: "SESSION_DELETED" });
  });

  it("fails if its session is cleared meanwhile, or contains the session as it was", async () => {
    const sp = await open();
    await sp.session("s").save({ list: LONG });
    const made = await exportWithPause(sp.export({ session: "s" }), () => sp.session("s").clear()).catch(
      (error: unknown) => error as Error,
    );
    if (made instanceof Error) expect(made).toMatchObject({ code: "SESSION_DELETED" });
    else await loadAll(made);
  });
});
