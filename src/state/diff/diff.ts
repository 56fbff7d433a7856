/**
 * The difference between two stored states.
 *
 * `compare.ts` returns a tree of differences whose leaves are still in their stored form. All leaves are decoded here, with
 * shared requests, and leaves that turn out to be equal are dropped.
 */
import {
  BoundedReader,
  CachingReader,
  decodeParts,
  type Frame,
  parseFrame,
  runReadTask,
  type StateReader,
} from "../codec/index.js";
import {
  BlobNode,
  type ClassRegistry,
  joinPointer,
  ListNode,
  pathToPointer,
  type Shadow,
  shadowToValue,
  tagOf,
  TextNode,
  ValueNode,
} from "../tree/index.js";
import type { Change } from "./change.js";
import { compare, type Delta, type StatePart } from "./compare.js";

/** The skeleton of a checkpoint. */
export interface StoredSkeleton {
  readonly skeleton: Frame;
  /** The tape of the checkpoint, which the refs of the skeleton do not name. */
  readonly tape: number;
}

/**
 * The changes that turn state `a` into state `b`. Reads only parts that differ, so that damage elsewhere does not matter;
 * throws `DAMAGED` if a part that it must read is damaged.
 */
export async function diffStates(
  a: StoredSkeleton,
  b: StoredSkeleton,
  reader: StateReader,
  registry: ClassRegistry,
): Promise<Change[]> {
  const once = new BoundedReader(new CachingReader(reader));
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

/** The leaves of a tree of differences. */
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

/**
 * Whether two shadows have the same content, however it is stored. Unlike `equalsShadow`, this ignores the order of
 * keys, of the pairs of a Map and of the members of a Set, because no user would call another order a difference.
 */
function isSameContent(a: Shadow, b: Shadow): boolean {
  const text = stringOf(a);
  return text === undefined ? contentKey(a) === contentKey(b) : text === stringOf(b);
}

function stringOf(shadow: Shadow): string | undefined {
  if (shadow instanceof TextNode && shadow.dense === undefined) return shadow.text;
  return typeof shadow === "string" ? shadow : undefined;
}

/** A canonical string of the content: equal if and only if the content is equal. */
function contentKey(shadow: Shadow): string {
  if (typeof shadow !== "object" || shadow === null) return JSON.stringify(shadow);
  if (Array.isArray(shadow)) return listKey("array", shadow);
  if (shadow instanceof TextNode) return contentKey(shadow.dense ?? shadow.text);
  if (shadow instanceof ValueNode) return contentKey(shadow.value);
  if (shadow instanceof BlobNode) return `${shadow.isBuffer ? "buffer" : "bytes"}#${shadow.hash}`;
  if (shadow instanceof ListNode) {
    const { kind, keys, elements } = shadow;
    return listKey(kind, keys ? elements.map((element, index): Shadow => [keys[index] as string, element]) : elements);
  }
  const tag = tagOf(shadow);
  if (!tag) return listKey("object", Object.entries(shadow));
  const [name, ...content] = tag;
  return Array.isArray(content[0]) ? listKey(name, content[0]) : `${name}(${content.map(contentKey).join()})`;
}

function listKey(kind: string, parts: readonly Shadow[]): string {
  const keys = parts.map(contentKey);
  return `${kind}[${(kind === "array" ? keys : keys.sort()).join()}]`;
}
