/** Data that is exported alone, or imported beside other data, arrives unchanged and can be used there. */
import assert from "node:assert/strict";
import { describe, expect, it } from "vitest";
import { FAST } from "../checkpoints/agent-data.js";
import { useData } from "../model/stores.js";
import { agentOf, fillAgent, fillSession, fillStore, fillWithOthers, PAIRS, sessionOf } from "./whole.js";

/** Each kind once on either side. */
const SOME = PAIRS.filter((_, index) => [1, 5, 6].includes(index));

describe.each(SOME)("from $name", ({ from, to }) => {
  const [source, target] = [useData(from), useData(to)];

  it("a store arrives unchanged in a store with other data, which does not change", async () => {
    const [a, b] = [await source.open(FAST), await target.open(FAST)];
    await fillWithOthers(b, "other");
    const others = [await agentOf(b, "other-agent"), await sessionOf(b, "other-session")];
    await fillStore(a);
    await b.import(a.export());
    const fresh = await target.open(FAST);
    for (const sp of [b, fresh]) {
      assert.deepEqual(await agentOf(sp, "a"), await agentOf(a, "a"));
      assert.deepEqual(await sessionOf(sp, "s"), await sessionOf(a, "s"));
      expect(await sp.conversations.load("nobody's")).toEqual(await a.conversations.load("nobody's"));
      assert.deepEqual([await agentOf(sp, "other-agent"), await sessionOf(sp, "other-session")], others);
    }
    const compacted = await fresh.compact();
    expect(compacted).toMatchObject({ sessions: 0 });
    assert.deepEqual(await agentOf(fresh, "a"), await agentOf(a, "a"));
    assert.deepEqual(await sessionOf(fresh, "s"), await sessionOf(a, "s"));
    assert.deepEqual([await agentOf(fresh, "other-agent"), await sessionOf(fresh, "other-session")], others);
  });

  it("a session arrives unchanged, and can be saved to", async () => {
    const [a, b] = [await source.open(FAST), await target.open(FAST)];
    await fillSession(b, "other");
    await fillSession(a, "s");
    const before = await sessionOf(a, "s");
    const report = await b.import(a.export({ session: "s" }));
    const history = before["history"] as unknown[];
    expect(report).toMatchObject({ kind: "session", sessions: 1, checkpoints: history.length });
    assert.deepEqual(await sessionOf(b, "s"), before);
    for (const branch of ["main", "side", "bare"]) {
      const [there, here] = [a.session("s", { branch }), b.session("s", { branch })];
      expect((await here.append("/messages", [1])).parentId).toBe((await there.head())?.id);
    }
    assert.deepEqual(await sessionOf(await target.open(FAST), "s"), await sessionOf(b, "s"));
  });

  it("an agent arrives unchanged, and can be saved to", async () => {
    const [a, b] = [await source.open(FAST), await target.open(FAST)];
    await fillSession(a, "not of the agent");
    const [newest = ""] = await fillAgent(a, "a");
    const before = await agentOf(a, "a");
    const report = await b.import(a.export({ agent: "a" }));
    expect(report).toMatchObject({ kind: "agent", skipped: [], holes: [] });
    assert.deepEqual(await agentOf(b, "a"), before);
    assert.deepEqual(await sessionOf(b, "a-session"), await sessionOf(a, "a-session"));
    expect(await b.sessions.load("not of the agent")).toBeUndefined();
    const plan = await a.checkpoints.restore(newest, { dryRun: true });
    expect(await b.checkpoints.restore(newest, { dryRun: true })).toEqual(plan);
  });

  it("every checkpoint of a session arrives unchanged when it is exported alone", async () => {
    const a = await source.open(FAST);
    const ids = await fillSession(a, "s");
    for (const [index, id] of ids.entries()) {
      if (index % 3 !== 1) continue;
      const b = await target.open(FAST);
      const report = await b.import(await a.export(id).bytes(), { as: `alone-${index}` });
      expect(report).toMatchObject({ kind: "checkpoint", sessions: 1, checkpoints: 1, conversations: 0 });
      const [there, here] = [await a.session("s").load(id), await b.session(`alone-${index}`).latest()];
      const { id: seen, state, seq, step, label, pinned, description, metadata, usage, createdAt } = here ?? {};
      const pick = { id: seen, state, seq, step, label, pinned, description, metadata, usage, createdAt };
      assert.deepEqual(pick, {
        id: there?.id,
        state: there?.state,
        seq: there?.seq,
        step: there?.step,
        label: there?.label,
        pinned: there?.pinned,
        description: there?.description,
        metadata: there?.metadata,
        usage: there?.usage,
        createdAt: there?.createdAt,
      });
      const next = await b.session(`alone-${index}`).save({ on: true });
      expect(next).toMatchObject({ parentId: id, seq: (there?.seq ?? 0) + 1 });
      assert.deepEqual((await b.session(`alone-${index}`).load(id))?.state, there?.state);
      await b.compact();
      assert.deepEqual((await b.session(`alone-${index}`).load(id))?.state, there?.state);
    }
  });

  it("a checkpoint of an agent brings its conversations back when it is restored", async () => {
    const [a, b] = [await source.open(FAST), await target.open(FAST)];
    await fillSession(b, "other");
    const ids = await fillAgent(a, "a");
    const oldest = ids.at(-1) ?? "";
    await b.import(a.export({ checkpoint: oldest }));
    const [there, here] = [await a.checkpoints.load(oldest), await b.checkpoints.load(oldest)];
    expect(here).toMatchObject({ id: oldest, label: "first" });
    assert.deepEqual(here?.state, there?.state);
    await b.compact();
    await b.checkpoints.restore(oldest);
    for (const id of ["a-gone", "a-empty", "a-cut", "a-kept"]) {
      const then = await a.conversations.load(id, { at: oldest });
      assert.deepEqual(await b.conversations.load(id, { at: oldest }), then);
      assert.deepEqual(await b.conversations.load(id), then);
    }
  });
});
