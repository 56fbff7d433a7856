/** Calls of a model that are far larger than usual: they cost no more than their size, or they are rejected. */
import { describe, expect, it } from "vitest";
import { applyPatch, type PatchOperation } from "../../src/mcp/json-patch.js";
import { useLab } from "../mcp/lab.js";

/** Counts how often a list of at least this length is iterated, as copying one does. */
function countCopies(length: number, work: () => void): number {
  const original = Array.prototype[Symbol.iterator];
  let copies = 0;
  Array.prototype[Symbol.iterator] = function (this: unknown[]) {
    if (this.length >= length) copies++;
    return original.call(this);
  } as typeof original;
  try {
    work();
  } finally {
    Array.prototype[Symbol.iterator] = original;
  }
  return copies;
}

describe("a call with thousands of changes", () => {
  it("copies a list once, however many changes it gets", () => {
    const state = { list: Array.from({ length: 5000 }, (_, n) => n) };
    const patch = Array.from({ length: 4000 }, (_, n): PatchOperation => ({ op: "add", path: "/list/-", value: n }));
    let result: unknown;
    expect(countCopies(5000, () => (result = applyPatch(state, patch)))).toBe(1);
    expect((result as typeof state).list).toHaveLength(9000);
    expect(state.list).toHaveLength(5000);
  });

  it("applies each change to the result of the changes before it", () => {
    const patch: PatchOperation[] = [
      { op: "add", path: "/list", value: [] },
      { op: "add", path: "/list/-", value: { deep: [] } },
      { op: "add", path: "/list/0/deep/-", value: 1 },
      { op: "add", path: "/list/0/deep/-", value: 2 },
      { op: "add", path: "/-", value: "a key of an object" },
      { op: "remove", path: "/list/0/deep/0" },
    ];
    const before = structuredClone(patch);
    expect(applyPatch({}, patch)).toEqual({ list: [{ deep: [2] }], "-": "a key of an object" });
    expect(patch).toEqual(before);
  });
});

describe("the size of a call", () => {
  const lab = useLab();

  it("is limited in its changes, and the error states the limit", async () => {
    const sp = await lab.open();
    await sp.session("s").save({ list: [] });
    const client = await lab.connect();
    const changes = Array.from({ length: 10_001 }, (_, n) => ({ op: "add", path: "/list/-", value: n }));
    const { code, text } = await client.fail("session_save", { session: "s", changes });
    expect(code).toBe("INVALID_ARGUMENT");
    expect(text).toContain("10,000");
    await client.call("session_save", { session: "s", changes: changes.slice(1) });
    expect((await sp.session<{ list: number[] }>("s").latest())?.state.list).toHaveLength(10_000);
  });

  it("is limited in its characters and values, and the server continues after the error", async () => {
    const client = await lab.connect();
    const tooMuch = { text: "x".repeat(33_000_000), values: Array.from({ length: 33_000_000 / 8 }, () => []) };
    for (const state of Object.values(tooMuch)) {
      const { code, text } = await client.fail("session_save", { session: "s", state });
      expect(code).toBe("INVALID_ARGUMENT");
      expect(text).toMatch(/32 MB.*Nothing was changed/s);
    }
    await client.call("session_save", { session: "s", state: { text: "x".repeat(1_000_000) } });
  });
});
