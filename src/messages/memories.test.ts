import { describe, expect, it } from "vitest";
import { findMemories } from "./memories.js";

describe("the memories of a state", () => {
  it("are the items of LangGraph's long-term memory, with their keys and values", () => {
    const item = { key: "food", value: { likes: "figs" }, createdAt: 1, updatedAt: 2 };
    expect(findMemories({ namespace: ["users", "ada"], pages: [[item], [item]] })).toEqual([
      { role: undefined, text: 'food\n{"likes":"figs"}', id: "food", timestamp: 2, path: "/pages/0/0" },
      { role: undefined, text: 'food\n{"likes":"figs"}', id: "food", timestamp: 2, path: "/pages/1/0" },
    ]);
  });

  it("are not found in other values", () => {
    const state = { namespace: ["a"], pages: [] as unknown };
    const others = [
      undefined,
      1,
      [],
      {},
      { ...state, namespace: "a" },
      { ...state, pages: {} },
      { ...state, pages: [1, [1]] },
    ];
    const broken = [{ key: 1 }, { key: "k", value: 1 }, { key: "k", value: {}, updatedAt: "now" }, null];
    for (const other of [...others, { ...state, pages: [broken] }]) expect(findMemories(other)).toEqual([]);
  });
});
