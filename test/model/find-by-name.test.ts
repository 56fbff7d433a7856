/** Finding checkpoints by the names that users type. */
import { beforeEach, describe, expect, it } from "vitest";
import type { Savepoint } from "../../src/index.js";
import { STORES, useData } from "./stores.js";

describe.each(STORES)("checkpoints of $name, by name", (kind) => {
  const data = useData(kind);
  let sp: Savepoint;
  beforeEach(async () => {
    sp = await data.open();
  });
  const found = async (name: string): Promise<string[]> => (await sp.checkpoints.find(name)).map(({ id }) => id);

  it("are found by id, by the end of an id, by number, by branch and by session", async () => {
    const session = sp.session("order-88");
    const [first, second] = [await session.save({ n: 1 }), await session.save({ n: 2 })];
    const branch = await session.fork(first.id, { branch: "what-if", state: { n: 3 } });
    const third = await branch.head();
    expect(await found(first.id)).toEqual([first.id]);
    expect(await found(first.id.slice(-8))).toEqual([first.id]);
    expect(await found("order-88#0")).toEqual([first.id]);
    expect(await found("order-88")).toEqual([second.id]);
    expect(await found("order-88@main")).toEqual([second.id]);
    expect(await found("order-88@what-if")).toEqual([third?.id]);
  });

  it("are not found by a name that matches none", async () => {
    await sp.session("s").save({ n: 1 });
    for (const name of ["t", "s#1", "s@other", "00000000", "s#", "#0", "@main"]) expect(await found(name)).toEqual([]);
    await expect(sp.checkpoints.find("")).rejects.toMatchObject({ code: "INVALID_ID" });
  });

  it("are all returned if a name is ambiguous", async () => {
    await sp.session("a").save({}, { id: "one-deadbeef" });
    await sp.session("b").save({}, { id: "two-deadbeef" });
    expect((await found("deadbeef")).sort()).toEqual(["one-deadbeef", "two-deadbeef"]);
  });

  it("are found in sessions whose ids look like names", async () => {
    for (const id of ["a#1", "a@b", "deadbeef", "x@y@z", "a:/b"]) {
      const { id: saved } = await sp.session(id).save({ id });
      expect(await found(id)).toEqual([saved]);
      expect(await found(`${id}#0`)).toEqual([saved]);
      expect(await found(`${id}@main`)).toEqual([saved]);
    }
  });

  it("include those of whole agents", async () => {
    await sp.agents.save({ id: "support", name: "Support" });
    const taken = await sp.checkpoints.create({ agent: "support", label: "before" });
    const [info] = await sp.checkpoints.find(taken.id.slice(-8));
    expect(info).toEqual(taken);
  });
});
