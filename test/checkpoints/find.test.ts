import { describe, expect, it } from "vitest";
import type { AgentCheckpoint } from "../../src/index.js";
import { STORES, useData } from "../model/stores.js";
import { ALL_KINDS, useLab } from "../run/lab.js";
import { AGENT, FAST, idsIn, saveAgent } from "./agent-data.js";
import { runs } from "../support/runs.js";

describe.each(STORES)("finding checkpoints on $name", (kind) => {
  const data = useData(kind);

  it("works by id, by a chosen id, and by session#seq, for sessions and agents", async () => {
    const sp = await data.open(FAST);
    const session = sp.session("s#1", { agent: AGENT });
    const a = await session.save("a");
    const b = await session.save("b", { id: "my id" });
    const side = await session.fork(a.id, { branch: "side" });
    const c = await side.save("c");
    await saveAgent(sp, 7);
    const d = await sp.checkpoints.create({ agent: AGENT });
    for (const each of [sp, await data.open(FAST)]) {
      const stateOf = async (id: string): Promise<unknown> => (await each.checkpoints.load(id))?.state;
      expect(await stateOf(a.id)).toBe("a");
      expect(await stateOf("my id")).toBe("b");
      expect(await stateOf("s#1#0")).toBe("a");
      expect(await stateOf(`s#1#${b.seq}`)).toBe("b");
      expect(await stateOf(c.id)).toBe("c");
      expect(await stateOf(`s#1#${c.seq}`)).toBe("c");
      expect(((await each.checkpoints.load(d.id)) as AgentCheckpoint).state.state).toEqual({ counter: 7 });
    }
    for (const id of ["", "no", "*", "s#1", "s#1#9", "s#1#-1", "S#1#0", "my", "my id ", AGENT, `${AGENT}#0`, "a\tb"]) {
      expect(await sp.checkpoints.load(id), id).toBeUndefined();
    }
    expect(await sp.checkpoints.load(d.id.slice(0, -1))).toBeUndefined();
  });

  it("does not find an agent without checkpoints, nor checkpoints deleted with their session or agent", async () => {
    const sp = await data.open(FAST);
    await saveAgent(sp, 1);
    expect(await sp.checkpoints.list().all()).toEqual([]);
    expect(await sp.checkpoints.latest()).toBeUndefined();
    const agents = await sp.checkpoints.create({ agent: AGENT });
    const sessions = await sp.session("s").save(1, { id: "chosen" });
    await sp.agents.delete(AGENT);
    await sp.sessions.delete("s");
    for (const id of [agents.id, sessions.id, "chosen", "s#0"]) expect(await sp.checkpoints.load(id)).toBeUndefined();
    expect(await sp.checkpoints.list().all()).toEqual([]);
    await sp.session("s").save(2);
    expect((await sp.checkpoints.load("s#0"))?.state).toBe(2);
    expect(await sp.checkpoints.load("chosen")).toBeUndefined();
  });

  it("many checkpoints of one millisecond are listed in the order in which they were taken", async () => {
    const sp = await data.open({ ...FAST, now: () => 1_700_000_000_000 });
    await saveAgent(sp, 0);
    const made: string[] = [];
    for (let n = 0; n < runs(200, 40); n++) made.unshift((await sp.checkpoints.create({ agent: AGENT })).id);
    expect(await idsIn(sp.checkpoints.list({ agent: AGENT }))).toEqual(made);
    expect((await sp.checkpoints.latest({ agent: AGENT }))?.id).toBe(made[0]);
  });
});

describe.each(ALL_KINDS)("listing checkpoints on $name", (kind) => {
  const lab = useLab(kind);

  it("returns those that match, newest first, with interleaved saves", async () => {
    const sp = await lab.open();
    const other = await lab.open();
    const made: { id: string; what: string }[] = [];
    const note = async (what: string, making: Promise<{ id: string }>): Promise<void> => {
      made.unshift({ what, id: (await making).id });
      lab.advance(1);
    };
    for (const id of ["a1", "a2"]) await sp.agents.save({ id, name: id });
    const s1 = sp.session("s1", { agent: "a1" });
    const s2 = other.session("s2", { agent: "a2" });
    const s3 = sp.session("s3");
    for (let n = 0; n < 6; n++) {
      await note("s1 a1", s1.save(n));
      await note("A a1", sp.checkpoints.create({ agent: "a1", kind: n % 2 ? "automatic" : "manual" }));
      await note("s2 a2", s2.save(n, { kind: "automatic" }));
      await note("A a2", other.checkpoints.create({ agent: "a2" }));
      await note("s3", s3.save(n));
      // Not a checkpoint.
      await sp.agents.save({ id: "a1", name: `${n}` });
      lab.advance(1);
    }
    const side = await s1.fork({ step: 0 }, { branch: "side" });
    await note("s1 a1", side.save("side"));
    const expected = (match: RegExp): string[] => made.filter(({ what }) => match.test(what)).map(({ id }) => id);
    for (const each of [sp, other, await lab.open()]) {
      const { checkpoints } = each;
      expect(await idsIn(checkpoints.list())).toEqual(expected(/./));
      expect(await idsIn(checkpoints.list({ agent: "a1" }))).toEqual(expected(/a1/));
      expect(await idsIn(checkpoints.list({ agent: "a2", of: "agent" }))).toEqual(expected(/^A a2/));
      expect(await idsIn(checkpoints.list({ agent: "a2", of: "session" }))).toEqual(expected(/^s2/));
      expect(await idsIn(checkpoints.list({ session: "s1" }))).toEqual(expected(/^s1/));
      expect(await idsIn(checkpoints.list({ session: "s1", of: "agent" }))).toEqual([]);
      expect(await idsIn(checkpoints.list({ of: "agent" }))).toEqual(expected(/^A/));
      expect(await idsIn(checkpoints.list({ of: "session" }))).toEqual(expected(/^s/));
      expect(await idsIn(checkpoints.list({ limit: 4 }))).toEqual(expected(/./).slice(0, 4));
      expect(await idsIn(checkpoints.list({ limit: 0 }))).toEqual([]);
      expect(await idsIn(checkpoints.list({ agent: "nobody" }))).toEqual([]);
      expect(await idsIn(checkpoints.list({ session: "none" }))).toEqual([]);
      const automatic = await checkpoints.list({ kind: "automatic", limit: 5 }).all();
      expect(automatic.map(({ kind: each }) => each)).toEqual(Array(5).fill("automatic"));
      expect(await idsIn(checkpoints.list({ kind: "automatic" }))).toHaveLength(9);
      expect((await checkpoints.latest())?.id).toBe(made[0]?.id);
      expect((await checkpoints.latest({ agent: "a2" }))?.id).toBe(expected(/a2/)[0]);
      expect((await checkpoints.latest({ of: "agent", kind: "automatic" }))?.id).toBe(automatic[1]?.id);
      expect((await checkpoints.latest({ session: "s3" }))?.state).toBe(5);
      expect(await checkpoints.latest({ kind: "recovery" })).toBeUndefined();
    }
    expect((await sp.stats()).checkpoints).toBe(made.length);
  });

  it("returns nothing for a session of another agent", async () => {
    const sp = await lab.open();
    await sp.session("s1", { agent: "a1" }).save(1);
    expect(await idsIn(sp.checkpoints.list({ session: "s1", agent: "a2" }))).toEqual([]);
  });

  it("returns no states, and can be stopped early", async () => {
    const sp = await lab.open();
    await saveAgent(sp, 1);
    for (let n = 0; n < 3; n++) await sp.checkpoints.create({ agent: AGENT });
    for await (const info of sp.checkpoints.list()) {
      expect(info).not.toHaveProperty("state");
      break;
    }
    const listing = sp.checkpoints.list();
    expect(await listing.all()).toHaveLength(3);
    await sp.checkpoints.create({ agent: AGENT });
    expect(await listing.all()).toHaveLength(4);
  });
});
