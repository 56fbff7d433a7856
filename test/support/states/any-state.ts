/** For tests: values of every kind that can be stored, in every size, and random edits in place anywhere in them. */
import { setKey } from "../../../src/state/tree/shadow.js";

export type Random = (below: number) => number;

const KEYS = [
  "a",
  "b",
  "id",
  "$",
  "__proto__",
  "",
  "0",
  "7",
  "10",
  "a/b",
  "m~n",
  "constructor",
  "toString",
  "length",
  "é😀",
];
const TEXTS = ["", "x", "tick", "\u0000", "\ud83d", "\ude00", "😀", "line\n", '"\\', "</script>", "word ", "é"];

/** Any value that can be stored. `depth` bounds its nesting. */
export function anyValue(random: Random, depth = 3): unknown {
  const kind = random(depth > 0 ? 26 : 14);
  const child = (): unknown => anyValue(random, depth - 1 - random(2));
  switch (kind) {
    case 0:
      return [null, true, false, undefined][random(4)];
    case 1:
      return [0, -0, 1, Number.NaN, Infinity, -Infinity, 1e21, 0.1, Number.MIN_VALUE, -1e-7][random(10)];
    case 2:
      return random(1000);
    case 3:
      return random(3) === 0 ? 10n ** BigInt(random(200)) : BigInt(random(10)) - 5n;
    case 4:
      return new Date(random(5) === 0 ? Number.NaN : random(1e9) * 1000);
    case 5:
      return anyBytes(random);
    case 6:
      return new URL(`https://example.com/${random(50)}?q=${"x".repeat(random(3) * 60)}`);
    case 7:
    case 8:
      return anyText(random).repeat(random(4) === 0 ? random(3000) : 1 + random(3));
    case 9:
    case 10:
      return anyText(random);
    case 11:
      return `key ${random(30)}`;
    case 12:
      return [[], {}, new Map(), new Set(), Object.create(null), "", [[]], { $: [] }][random(8)];
    case 13:
      return { $: ["date", random(3)] };
    case 14:
    case 15:
      return anyList(random, child);
    case 16:
    case 17:
      return anyRecord(random, {}, child);
    case 18:
      return anyRecord(random, Object.create(null) as Record<string, unknown>, child);
    case 19:
      return new Map(anyList(random, child).map((value, at) => [random(3) ? `key ${at}` : child(), value]));
    case 20:
      return new Map(anyList(random, child).map((value, at) => [`key ${at}`, value]));
    case 21:
      return new Set(anyList(random, child));
    case 22:
      return Array.from({ length: random(3) * 600 }, () => random(20));
    case 23:
      return Object.fromEntries(Array.from({ length: random(3) * 300 }, (_, at) => [`n${at}`, random(5)]));
    case 24: {
      const twice = child();
      return [twice, { again: twice }, twice];
    }
    default:
      return Array.from({ length: random(90) }, (_, at) => ({
        id: at,
        role: "user",
        content: anyText(random).repeat(20),
      }));
  }
}

/** One random edit in place, at a random depth. What cannot be edited in place is replaced by what is returned. */
export function editAnywhere(value: unknown, random: Random): unknown {
  if (typeof value === "string" && random(4)) return editText(value, random);
  if (typeof value !== "object" || value === null || random(40) === 0) return anyValue(random, 2);
  if (Array.isArray(value)) return editArray(value as unknown[], random);
  if (value instanceof Map) return editMap(value as Map<unknown, unknown>, random);
  if (value instanceof Set) return editSet(value as Set<unknown>, random);
  if (value instanceof Uint8Array) {
    if (value.length > 0) value[random(value.length)] = random(256);
    return value;
  }
  if (value instanceof Date) {
    value.setTime(random(6) === 0 ? Number.NaN : random(1e9));
    return value;
  }
  if (value instanceof URL) {
    value.pathname = `/${random(100)}`;
    return value;
  }
  return editRecord(value as Record<string, unknown>, random);
}

function editArray(array: unknown[], random: Random): unknown {
  const at = random(array.length);
  const { length } = array;
  switch (length === 0 ? random(3) : random(18)) {
    case 0:
      array.push(anyValue(random, 2));
      break;
    case 1:
      array.splice(random(length + 1), 0, ...anyList(random, () => anyValue(random, 1)));
      break;
    case 2:
      array.unshift(anyValue(random, 1));
      break;
    case 3:
      array.splice(at, 1 + random(3));
      break;
    case 4:
      array.splice(at);
      break;
    case 5:
      array.length = 0;
      break;
    case 6:
      array.reverse();
      break;
    case 7: {
      const to = random(length);
      [array[at], array[to]] = [array[to], array[at]];
      break;
    }
    case 8:
      // Moved and edited at once.
      array.splice(random(length), 0, editAnywhere(array.splice(at, 1)[0], random));
      break;
    case 9:
      // The same object in several places.
      array.splice(random(length + 1), 0, ...Array.from({ length: 1 + random(20) }, () => array[at]));
      break;
    case 10:
      array.push(...array.slice(at, at + 1 + random(5)));
      break;
    case 11:
      array[at] = anyValue(random, 2);
      break;
    case 12:
      return random(2) ? new Set(array) : Object.fromEntries(array.entries());
    default:
      array[at] = editAnywhere(array[at], random);
  }
  return array;
}

function editRecord(record: Record<string, unknown>, random: Random): unknown {
  const keys = Object.keys(record);
  const key = keys[random(keys.length)];
  switch (key === undefined ? 0 : random(14)) {
    case 0:
    case 1:
      setKey(record, anyKey(random), anyValue(random, 2));
      break;
    case 2:
      for (let at = random(40); at > 0; at--) setKey(record, `key ${random(60)}`, anyValue(random, 1));
      break;
    case 3:
      delete record[key as string];
      break;
    case 4:
      for (const old of keys) if (random(4)) delete record[old];
      break;
    case 5: {
      const value = record[key as string];
      delete record[key as string];
      setKey(record, key as string, random(2) ? value : editAnywhere(value, random));
      break;
    }
    case 6:
      return random(2) ? new Map(Object.entries(record)) : Object.assign(Object.create(null) as object, record);
    case 7:
      return random(3) ? Object.values(record) : Object.defineProperties({}, Object.getOwnPropertyDescriptors(record));
    default:
      setKey(record, key as string, editAnywhere(record[key as string], random));
  }
  return record;
}

function editMap(map: Map<unknown, unknown>, random: Random): unknown {
  const keys = [...map.keys()];
  const key = keys[random(keys.length)];
  switch (random(9)) {
    case 0:
      map.set(random(2) ? `key ${random(60)}` : anyValue(random, 1), anyValue(random, 1));
      break;
    case 1:
      map.delete(key);
      break;
    case 2: {
      const value = map.get(key);
      map.delete(key);
      map.set(key, value);
      break;
    }
    case 3:
      if (random(4) === 0) map.clear();
      break;
    case 4:
      return random(2) ? [...map] : Object.fromEntries([...map].map(([, value], at) => [`key ${at}`, value]));
    default:
      if (keys.length > 0) map.set(key, editAnywhere(map.get(key), random));
  }
  return map;
}

function editSet(set: Set<unknown>, random: Random): unknown {
  const members = [...set];
  const member = members[random(members.length)];
  switch (random(6)) {
    case 0:
      set.delete(member);
      break;
    case 1:
      if (typeof member === "object") editAnywhere(member, random);
      break;
    case 2:
      return members;
    default:
      set.add(random(2) ? `member ${random(60)}` : anyValue(random, 1));
  }
  return set;
}

function editText(text: string, random: Random): string {
  const from = random(2) ? text.length : random(text.length + 1);
  const to = Math.min(text.length, from + random(random(3) ? 3 : 6000));
  return text.slice(0, from) + anyText(random).repeat(1 + random(random(3) ? 3 : 2000)) + text.slice(to);
}

function anyList(random: Random, child: () => unknown): unknown[] {
  const length = random(4) === 0 ? random(40) : random(5);
  const same = random(4) === 0 ? child() : undefined;
  return Array.from({ length }, () => (same !== undefined && random(2) ? same : child()));
}

function anyRecord(random: Random, into: Record<string, unknown>, child: () => unknown): Record<string, unknown> {
  for (let count = random(4) === 0 ? random(40) : random(5); count > 0; count--) {
    setKey(into, random(2) ? anyKey(random) : `key ${random(60)}`, child());
  }
  return into;
}

function anyKey(random: Random): string {
  return KEYS[random(KEYS.length)] as string;
}

function anyText(random: Random): string {
  return Array.from({ length: random(4) }, () => TEXTS[random(TEXTS.length)]).join("");
}

function anyBytes(random: Random): Uint8Array {
  const bytes = random(2) ? Buffer.alloc(random(3) * 700) : new Uint8Array(random(3) * 700);
  return bytes.fill(random(256));
}
