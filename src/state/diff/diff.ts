/**
 * What differs between two stored states, read from as little as possible.
 *
 * The walk over both (compare.ts) gives a tree of differences whose values are still as stored. They are decoded here,
 * all at once, and what then turns out to be equal is no difference.
 */
import type { Change } from "./change.js";
import { compare, type Delta, type StatePart } from "./compare.js";
import { decodeParts, type Frame, parseFrame, CachingReader, runReadTask, type StateReader } from "../codec/index.js";
import { type ClassRegistry, joinPointer, pathToPointer, type Shadow, shadowToValue } from "../tree/index.js";
import { isSameContent } from "./same-content.js";

export { applyChanges, type Change } from "./change.js";

/** A state as a checkpoint holds it. */
export interface StoredSkeleton {
  readonly skeleton: Frame;
  /** The tape that the skeleton's refs do not name. */
  readonly tape: number;
}

/** What leads from `a` to `b`, reading only what differs. What is damaged and has to be read is `DAMAGED`. */
export async function diffStates(
  a: StoredSkeleton,
  b: StoredSkeleton,
  reader: StateReader,
  registry: ClassRegistry,
): Promise<Change[]> {
  const once = new CachingReader(reader);
  const [before, after] = [a, b].map(({ skeleton, tape }) => ({ tree: parseFrame(skeleton, tape), path: undefined }));
  const delta = await runReadTask(compare(before as StatePart, after as StatePart), once);
  const parts = partsOf(delta);
  const shadows = await decodeParts(
    parts.map(({ tree, path }) => ({ tree, path: pathToPointer(path) })),
    once,
  );
  const decoded = new Map(parts.map((part, index) => [part, shadows[index] as Shadow]));
  const changes: Change[] = [];
  listChanges(delta, "", decoded, registry, changes);
  return changes;
}

/** What is still to be decoded. */
function partsOf(delta: Delta): StatePart[] {
  switch (delta.op) {
    case "same":
      return [];
    case "add":
      return [delta.value];
    case "remove":
      return [delta.before];
    case "replace":
      return [delta.before, delta.value];
    case "members":
      return delta.members.flatMap(([, member]) => partsOf(member));
    case "elements":
      return delta.elements.flatMap(partsOf);
  }
}

function listChanges(
  delta: Delta,
  path: string,
  decoded: ReadonlyMap<StatePart, Shadow>,
  registry: ClassRegistry,
  changes: Change[],
): void {
  const shadow = (part: StatePart): Shadow => decoded.get(part) as Shadow;
  const value = (part: StatePart): unknown => shadowToValue(shadow(part), registry);
  switch (delta.op) {
    case "same":
      break;
    case "add":
      changes.push({ op: "add", path, value: value(delta.value) });
      break;
    case "remove":
      changes.push({ op: "remove", path, before: value(delta.before) });
      break;
    case "replace":
      if (isSameContent(shadow(delta.before), shadow(delta.value))) break;
      changes.push({ op: "replace", path, before: value(delta.before), value: value(delta.value) });
      break;
    case "members":
      for (const [key, member] of delta.members)
        listChanges(member, joinPointer(path, key), decoded, registry, changes);
      break;
    case "elements": {
      let index = 0;
      for (const element of delta.elements) {
        listChanges(element, joinPointer(path, index), decoded, registry, changes);
        if (element.op !== "remove") index += element.op === "same" ? element.count : 1;
      }
    }
  }
}
