import { describe, expect, it } from "vitest";
import { messages } from "./sample-states.js";
import { STORES, useData } from "./stores.js";

/** Ids that have broken systems which made file names, patterns or keys of them. */
const ALLOWED = [
  "../x",
  "../../etc/passwd",
  "/",
  "*",
  "%",
  "_",
  "?",
  "a",
  "a_b",
  "a b",
  "ab",
  "sess1",
  "sess1_2",
  "sess1*",
  "latest",
  "main",
  "x.json",
  "x",
  "CON",
  "con",
  "NUL",
  "__proto__",
  "constructor",
  "😀",
  "é",
  "e\u0301",
  "#",
  "s#1",
  "0",
  "-1",
  "~1",
  "$",
  "'; DROP TABLE savepoint_record; --",
  '"',
  "\\",
  "\u00a0",
  "\u{10ffff}",
  "\u{fffd}",
  " ",
  "x".repeat(1024),
  "é".repeat(512),
];
const REFUSED = [
  "",
  "\u0000",
  "a\u0000b",
  "\t",
  "a\tb",
  "a\nb",
  "\r",
  "\u001f",
  "\u007f",
  "\ud800",
  "a\udc00",
  "x".repeat(4096),
  "é".repeat(513),
];

describe.each(STORES)("hostile ids on $name", (kind) => {
  const data = useData(kind);

  it("of sessions are kept apart", async () => {
    const sp = await data.open({ durability: "process" });
    for (const [n, id] of ALLOWED.entries()) {
      const session = sp.session<unknown>(id, { agent: id });
      await session.save({ id, list: messages(5) }, { label: id, id });
      if (n % 3 === 0) await session.save({ id, second: true });
    }
    const again = await data.open();
    expect((await again.sessions.list().all()).map(({ id }) => id)).toEqual([...ALLOWED].reverse());
    for (const [n, id] of ALLOWED.entries()) {
      const session = again.session<{ id: string }>(id);
      const history = await session.history({ allBranches: true }).all();
      expect(history, id).toHaveLength(n % 3 === 0 ? 2 : 1);
      expect(history.every(({ sessionId, agent }) => sessionId === id && agent === id)).toBe(true);
      expect(await session.load(id)).toMatchObject({ state: { id }, label: id, id });
      expect((await session.load({ label: id }))?.state.id).toBe(id);
      expect((await session.load(`${id}#0`))?.state.id).toBe(id);
    }
    // Removing one leaves its neighbours alone.
    for (const [n, id] of ALLOWED.entries()) if (n % 2) expect(await again.sessions.delete(id)).toBe(true);
    for (const [n, id] of ALLOWED.entries()) {
      expect((await again.sessions.load(id))?.id, id).toBe(n % 2 ? undefined : id);
      if (n % 2 === 0) expect(await again.session(id).clear()).toBe(n % 3 === 0 ? 2 : 1);
    }
  });

  it("of branches are kept apart", async () => {
    const sp = await data.open({ durability: "process" });
    const session = sp.session<unknown>("s");
    const { id } = await session.save("start");
    const names = ALLOWED.filter((name) => name !== "main" && !name.startsWith("~"));
    for (const name of names) await session.fork(id, { branch: name, state: name });
    for (const name of names) expect((await sp.session("s", { branch: name }).latest())?.state).toBe(name);
    expect((await session.branches().all()).map(({ name }) => name).sort()).toEqual([...names, "main"].sort());
    expect((await session.latest())?.state).toBe("start");
  });

  it("that cannot be kept apart are rejected everywhere", async () => {
    const sp = await data.open();
    const session = sp.session("s");
    const { id: first } = await session.save(1);
    for (const id of REFUSED) {
      expect(() => sp.session(id)).toThrow(expect.objectContaining({ code: "INVALID_ID" }) as Error);
      expect(() => sp.session("s", { agent: id })).toThrow(expect.objectContaining({ code: "INVALID_ID" }) as Error);
      expect(() => sp.session("s", { branch: id })).toThrow(expect.objectContaining({ code: "INVALID_ID" }) as Error);
      await expect(session.fork(first, { branch: id })).rejects.toMatchObject({ code: "INVALID_ID" });
      await expect(session.save(1, { id })).rejects.toMatchObject({ code: "INVALID_ID" });
      await expect(session.save(1, { label: id })).rejects.toMatchObject({ code: "INVALID_ID" });
      await expect(session.label(first, id)).rejects.toMatchObject({ code: "INVALID_ID" });
      await expect(sp.sessions.load(id)).rejects.toMatchObject({ code: "INVALID_ID" });
      await expect(sp.sessions.delete(id)).rejects.toMatchObject({ code: "INVALID_ID" });
    }
    for (const id of [undefined, null]) {
      expect(() => sp.session(id as never)).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }) as Error);
    }
    for (const id of [5, {}, ["s"]]) {
      expect(() => sp.session(id as never)).toThrow(expect.objectContaining({ code: "INVALID_ID" }) as Error);
    }
    expect((await sp.sessions.list().all()).length).toBe(1);
    expect((await session.history({ allBranches: true }).all()).length).toBe(1);
  });

  it("with tabs find nothing inside the store", async () => {
    const sp = await data.open();
    const session = sp.session("s");
    await session.save(1, { id: "x", label: "l" });
    for (const ref of ["x\t10", "\t", "x\t"]) expect(await session.load(ref)).toBeUndefined();
    expect(await session.load({ label: "l\t10" })).toBeUndefined();
  });
});
