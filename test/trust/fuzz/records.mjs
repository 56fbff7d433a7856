/** Changes of records and items that mean the same in every store: their keys, values, refs and places. */
import { pick } from "../../chaos/random.mjs";
import { decodeNumbers, encodeNumber } from "./internals.mjs";
import { VICTIM, VICTIM_AGENT } from "./seed.mjs";
import { IDS, mutateRefs, mutateValue } from "./values.mjs";

/** @typedef {import("./values.mjs").Random} Random */
/** @typedef {{ key: string, value: string, refs: string }} StoredRecord */
/** @typedef {{ tape: string, item: number, json: string, refs: string }} Item */
/** @typedef {{ kind: string, detail: string, touched: string[] }} Mutation what was changed, and the ids that it belongs to */

/**
 * Changes something once, or several times: one change alone may be noticed where two are not.
 *
 * @template Result
 * @param {Random} random @param {() => Promise<Result> | Result} mutate
 * @returns {Promise<[Result, ...Result[]]>}
 */
export async function mutateSeveral(random, mutate) {
  /** @type {[Result, ...Result[]]} */
  const results = [await mutate()];
  for (let left = random() < 0.6 ? 0 : Math.ceil(random() * 3); left > 0; left--) {
    try {
      results.push(await mutate());
    } catch {
      // The codecs need not be able to read what the changes before have made.
      break;
    }
  }
  return results;
}

/** The number at the start of a string. @param {string} text */
const numberIn = (text) => decodeNumbers(text, 1).numbers[0] ?? Number.NaN;

/** Ids by the numbers that rows and tapes are named after. */
export class Numbers {
  /** @type {Map<number, string>} */
  #ids = new Map();

  /** @param {Iterable<StoredRecord>} records */
  constructor(records) {
    for (const { key, value } of records) {
      const [kind, id = "", last = ""] = key.split("\t");
      if (/^[nk][0-9a-z]/.test(key)) this.#add(numberIn(key.slice(1)), value);
      else if (kind === "y") this.#add(numberIn(last), id);
      else if ((kind === "s" || kind === "c") && last === "") this.#add(Number(/^\{"n":(\d+)/.exec(value)?.[1]), id);
    }
  }

  /** @param {number} number @param {string} id */
  #add(number, id) {
    // A change before may have given a number of the victim to another session as well.
    if (!this.isVictim(this.#ids.get(number) ?? "")) this.#ids.set(number, id);
  }

  /** Whether a tape may be changed: it is known that the victim has nothing on it. @param {string} tape */
  isFree(tape) {
    const owner = this.ownerOfTape(tape);
    return owner !== "" && !this.isVictim(owner);
  }

  /** @param {string} id */
  numberOf(id) {
    return [...this.#ids].find(([, each]) => each.includes(id))?.[0] ?? 0;
  }

  /** The id that a record belongs to; empty for one of the whole store. @param {string} key */
  ownerOf(key) {
    if (/^[zalwxnk][0-9a-z]/.test(key)) return this.ownerOfTape(key.slice(1));
    const [kind = "", first = "", second = "", third = ""] = key.split("\t");
    if (kind === "w") return third === "" ? first : (key.split("\t")[3] ?? "");
    if (kind === "p") return second;
    return kind.startsWith("i") ? this.ownerOfTape(first) : first;
  }

  /** @param {string} tape */
  ownerOfTape(tape) {
    return this.#ids.get(numberIn(tape)) ?? "";
  }

  /** Whether something belongs to what nothing may change. @param {string} owner */
  isVictim(owner) {
    return owner.includes(VICTIM) || owner.includes(VICTIM_AGENT);
  }
}

/**
 * Changes one record. Returns what replaces it: nothing, itself, or several.
 *
 * @param {StoredRecord} record @param {readonly StoredRecord[]} all @param {Numbers} numbers @param {Random} random
 * @returns {{ kind: string, records: StoredRecord[] }}
 */
export function mutateRecord(record, all, numbers, random) {
  const roll = random();
  if (roll < 0.06) return { kind: "record removed", records: [] };
  if (roll < 0.14)
    return { kind: "key renamed", records: [{ ...record, key: renameKey(record.key, numbers, random) }] };
  if (roll < 0.2)
    return { kind: "key copied", records: [record, { ...record, key: renameKey(record.key, numbers, random) }] };
  if (roll < 0.28) {
    const same = all.filter(({ key }) => key[0] === record.key[0] && key !== record.key);
    const other = pick(random, same.length > 0 && random() < 0.8 ? same : all);
    return {
      kind: "value of another record",
      records: [{ ...record, value: other.value, refs: random() < 0.5 ? other.refs : record.refs }],
    };
  }
  if (record.refs !== "" && roll < 0.45) {
    return { kind: "refs", records: [{ ...record, refs: mutateRefs(record.refs, random) }] };
  }
  if (roll < 0.5) {
    const ids = IDS.filter((id) => id.length > 3 && record.value.includes(id));
    if (ids.length > 0)
      return {
        kind: "id replaced",
        records: [{ ...record, value: record.value.replaceAll(pick(random, ids), () => pick(random, IDS)) }],
      };
  }
  const { kind, value } = mutateValue(record.value, random);
  return { kind, records: [{ ...record, value }] };
}

/** @param {string} key @param {Numbers} numbers @param {Random} random */
function renameKey(key, numbers, random) {
  const roll = random();
  if (roll < 0.3) return pick(random, "#snjzialrqwuhckymvopx".split("")) + key.slice(1);
  if (roll < 0.5)
    return (
      key.slice(0, 1) +
      encodeNumber(pick(random, [0, 1, 3, 7, 40, 2 ** 31, 2 ** 52, numbers.numberOf("beta")])) +
      key.slice(3)
    );
  if (roll < 0.6) return key.slice(0, -1);
  if (roll < 0.7) return key + pick(random, ["0", "\t", "\tx", "zzzz", "\u0000", "x".repeat(3000)]);
  if (roll < 0.8) return key.slice(0, 1) + pick(random, ["", "z", "zz", "-1", "z".repeat(40), "c9007199254740993"]);
  const parts = key.split("\t");
  parts[Math.floor(random() * parts.length)] = pick(random, IDS);
  return parts.join("\t");
}

/** Changes one item. @param {Item} item @param {readonly Item[]} all @param {Random} random @returns {{ kind: string, frame: { json: string, refs: string } }} */
export function mutateItem(item, all, random) {
  const { json, refs, item: number } = item;
  const roll = random();
  if (roll < 0.35)
    return {
      kind: "item refs",
      frame: { json: random() < 0.5 ? json : '{"$":["array",0]}', refs: mutateRefs(refs, random, number) },
    };
  if (roll < 0.45) return { kind: "item of another place", frame: pick(random, all) };
  if (roll < 0.55) {
    const level = pick(random, [
      "[0]",
      "[1,[1]]",
      "[9,[1,1,1]]",
      "[-1]",
      "[1e9,[1]]",
      "[1,[1e15]]",
      "[1,[-5]]",
      "[0.5]",
      "[]",
      "[1]",
      "[2,[0]]",
    ]);
    return { kind: "node", frame: { json: level, refs: random() < 0.5 ? refs : mutateRefs(refs, random, number) } };
  }
  const { kind, value } = mutateValue(json, random);
  return { kind: `item ${kind}`, frame: { json: value, refs } };
}
