/** Edits of a state that are not saved yet. Pure. */
import type { EditRequest } from "../../../api.js";
import type { Json } from "../../api/types.js";

type Changes = NonNullable<EditRequest["changes"]>;

/** What was edited at a pointer. */
export type Edit = { readonly op: "replace" | "add"; readonly value: Json } | { readonly op: "remove" };

export type Edits = ReadonlyMap<string, Edit>;

/** Adds an edit. Edits below its pointer are dropped: it replaces them. */
export function withEdit(edits: Edits, pointer: string, edit: Edit): Edits {
  const kept = [...edits].filter(([each]) => each !== pointer && !each.startsWith(`${pointer}/`));
  const before = edits.get(pointer);
  if (before?.op === "add" && edit.op === "remove") return new Map(kept);
  const op = before?.op === "add" && edit.op === "replace" ? { ...edit, op: "add" as const } : edit;
  return new Map([...kept, [pointer, op]]);
}

export function withoutEdit(edits: Edits, pointer: string): Edits {
  return new Map([...edits].filter(([each]) => each !== pointer));
}

/**
 * The changes in an order in which no change moves the place of a later one: replacements, then additions, then removals from the
 * end of each list.
 */
export function toChanges(edits: Edits): Changes {
  const entries = [...edits];
  const replaced = entries.flatMap(([path, edit]) =>
    edit.op === "replace" ? [{ op: edit.op, path, value: edit.value }] : [],
  );
  const added = entries.flatMap(([path, edit]) =>
    edit.op === "add" ? [{ op: edit.op, path, value: edit.value }] : [],
  );
  const removed = entries
    .flatMap(([path, edit]) => (edit.op === "remove" ? [{ op: edit.op, path }] : []))
    .sort((a, b) => comparePointers(b.path, a.path));
  return [...replaced, ...added.sort((a, b) => comparePointers(a.path, b.path)), ...removed];
}

/** Compares pointers key by key; keys that are indexes by their number. */
function comparePointers(a: string, b: string): number {
  const [left, right] = [a.split("/"), b.split("/")];
  for (let index = 0; index < Math.min(left.length, right.length); index++) {
    const [one, other] = [left[index] as string, right[index] as string];
    if (one === other) continue;
    const areNumbers = /^\d+$/.test(one) && /^\d+$/.test(other);
    return areNumbers ? Number(one) - Number(other) : one < other ? -1 : 1;
  }
  return left.length - right.length;
}
