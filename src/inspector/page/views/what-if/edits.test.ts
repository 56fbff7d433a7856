import { describe, expect, it } from "vitest";
import { type Edits, toChanges, withEdit, withoutEdit } from "./edits.js";

const NONE: Edits = new Map();

describe("edits of a state", () => {
  it("remove elements of a list from its end, so that no removal moves the next one", () => {
    let edits = NONE;
    for (const index of [2, 10, 1]) edits = withEdit(edits, `/messages/${index}`, { op: "remove" });
    expect(toChanges(edits).map(({ path }) => path)).toEqual(["/messages/10", "/messages/2", "/messages/1"]);
  });

  it("replace before they add and remove", () => {
    let edits = withEdit(NONE, "/a", { op: "remove" });
    edits = withEdit(edits, "/b", { op: "add", value: 1 });
    edits = withEdit(edits, "/c", { op: "replace", value: 2 });
    expect(toChanges(edits).map(({ op }) => op)).toEqual(["replace", "add", "remove"]);
  });

  it("of a container replace the edits of its parts", () => {
    let edits = withEdit(NONE, "/order/status", { op: "replace", value: "new" });
    edits = withEdit(edits, "/order", { op: "replace", value: {} });
    expect([...edits.keys()]).toEqual(["/order"]);
  });

  it("of an added value remain an addition, and disappear when the value is removed", () => {
    const added = withEdit(NONE, "/x", { op: "add", value: 1 });
    expect(withEdit(added, "/x", { op: "replace", value: 2 }).get("/x")).toEqual({ op: "add", value: 2 });
    expect(withEdit(added, "/x", { op: "remove" }).size).toBe(0);
    expect(withoutEdit(added, "/x").size).toBe(0);
  });
});
