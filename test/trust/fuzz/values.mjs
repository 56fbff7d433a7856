/** Hostile values, and changes of JSON and refs that know what these look like in a store. */
import { pick } from "../../chaos/random.mjs";
import { VICTIM, VICTIM_AGENT } from "./seed.mjs";

/** @typedef {() => number} Random */

/** Ids that belong to something else, and ids that no caller could choose. */
export const IDS = [
  VICTIM,
  VICTIM_AGENT,
  `\u0001${VICTIM_AGENT}`,
  "alpha",
  "beta",
  "agent-a",
  "\u0001agent-a",
  "run-hangs",
  "runner",
  "",
  "\u0000",
  "\u0001",
  "a\tb",
  "a\nb",
  "\ud800",
  "__proto__",
  "constructor",
  "../../canary/file",
  "/etc/passwd",
  "~1",
  "main",
];

const STRINGS = [
  ...IDS,
  "\u001b[2J\u0007",
  "%00",
  "..\\..\\canary",
  "x".repeat(1 << 20),
  "\u0000".repeat(1000),
  "0".repeat(100),
  "9".repeat(400),
  "-1",
  "1e308",
];

/** As JSON: some of them are not what `JSON.stringify` would write. */
const NUMBERS = [
  "0",
  "-0",
  "-1",
  "0.5",
  "1",
  "2",
  "63",
  "64",
  "255",
  "65536",
  "2147483647",
  "2147483648",
  "4294967295",
  "4294967296",
  "9007199254740991",
  "9007199254740992",
  "-9007199254740991",
  "1e15",
  "1e20",
  "1e308",
  "1e999",
  "5e-324",
  "9".repeat(400),
  "8640000000000001",
];

const DEEP = 200_000;

const TAGS = [
  "array",
  "object",
  "dict",
  "map",
  "set",
  "text",
  "dense",
  "value",
  "blob",
  "blobBuffer",
  "bytes",
  "buffer",
  "date",
  "url",
  "bigint",
  "number",
  "undefined",
  "class",
  "instance",
  "__proto__",
  "constructor",
  "toString",
  "",
  "nothing",
];

/** @param {Random} random */
function hostileTag(random) {
  const contents = [
    "0",
    "-1",
    "99999999",
    '"x"',
    "null",
    "[]",
    "[[]]",
    "[[1]]",
    '[["__proto__",{"polluted":1}]]',
    '"9999999999999"',
    "1e999",
    "{}",
  ];
  const tag = JSON.stringify(pick(random, TAGS));
  const parts = [tag, ...Array.from({ length: Math.floor(random() * 4) }, () => pick(random, contents))];
  return `{"$":[${parts.join(",")}]}`;
}

/** Replacements for any part of a JSON value, by class. @type {Record<string, (random: Random) => string>} */
const REPLACEMENTS = {
  number: (random) => pick(random, NUMBERS),
  string: (random) => JSON.stringify(pick(random, STRINGS)),
  id: (random) => JSON.stringify(pick(random, IDS)),
  type: (random) =>
    pick(random, ["null", "true", "[]", "{}", '""', "0", "[[]]", '{"a":1}', "[null]", '["x"]', "[1,2,3,4,5,6,7,8,9]"]),
  nesting: (random) => {
    const [open, close] = pick(random, [
      ["[", "]"],
      ['{"a":', "}"],
      ['{"$":["array",', "]}"],
      ['{"$":["map",[[1,', "]]]}"],
    ]);
    const depth = pick(random, [500, 5000, DEEP]);
    return `${/** @type {string} */ (open).repeat(depth)}1${/** @type {string} */ (close).repeat(depth)}`;
  },
  tag: hostileTag,
  length: (random) =>
    pick(random, [
      `[${"0,".repeat(100_000)}0]`,
      `[${'{"$":["array",0]},'.repeat(5000)}0]`,
      `{${Array.from({ length: 20_000 }, (_, n) => `"k${n}":${n}`).join(",")}}`,
    ]),
  proto: () => '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}',
};
const CLASSES = Object.keys(REPLACEMENTS);

/** The paths of all parts of a JSON value. @param {unknown} value @param {(string | number)[]} [path] @returns {(string | number)[][]} */
function pathsOf(value, path = []) {
  if (typeof value !== "object" || value === null) return [path];
  const entries = Array.isArray(value)
    ? value.slice(0, 50).map((part, index) => /** @type {const} */ ([index, part]))
    : Object.entries(value).slice(0, 50);
  return [path, ...entries.flatMap(([key, part]) => pathsOf(part, [...path, key]))];
}

/** A string that stands for raw JSON until everything else is encoded. */
const RAW = "@raw@";

/** @param {unknown} root @param {(string | number)[]} path @param {(parent: any, key: string | number) => void} change */
function changeAt(root, path, change) {
  const holder = { root };
  /** @type {any} */
  let parent = holder;
  const keys = ["root", ...path];
  for (const key of keys.slice(0, -1)) parent = parent[key];
  change(parent, /** @type {string | number} */ (keys.at(-1)));
  return holder.root;
}

/**
 * Changes one part of a JSON value.
 *
 * @param {string} json @param {Random} random
 * @returns {{ kind: string, json: string }}
 */
export function mutateJson(json, random) {
  const root = JSON.parse(json);
  const paths = pathsOf(root);
  const path = pick(random, paths);
  if (random() < 0.25) {
    const action = pick(random, ["remove", "duplicate", "add", "rename"]);
    let duplicate = "";
    const changed = changeAt(root, path, (parent, key) => {
      const isList = Array.isArray(parent);
      const index = Number(key);
      if (action === "remove" && isList) parent.splice(index, 1);
      else if (action === "remove") delete parent[key];
      else if (isList) parent.splice(index, 0, action === "add" ? pick(random, [0, "x", null, -1]) : parent[index]);
      else if (action === "duplicate")
        duplicate = `${JSON.stringify(key)}:${REPLACEMENTS[pick(random, ["number", "string", "type"])]?.(random)},`;
      else if (action === "add")
        parent[pick(random, ["$", "x", "l", "h", "p", "toJSON", "then", "length"])] = pick(random, [
          1,
          "x",
          {},
          [1, 2],
        ]);
      else {
        parent[pick(random, ["$", "", "constructor", "a"])] = parent[key];
        delete parent[key];
      }
    });
    const text = JSON.stringify(changed) ?? "";
    return { kind: `key ${action}`, json: duplicate && text.startsWith("{") ? `{${duplicate}${text.slice(1)}` : text };
  }
  const kind = pick(random, [...CLASSES, "number", "number", "id", "tag"]);
  const replacement = /** @type {(random: Random) => string} */ (REPLACEMENTS[kind])(random);
  const changed = changeAt(root, path, (parent, key) => (parent[key] = RAW));
  return { kind, json: JSON.stringify(changed).replace(`"${RAW}"`, () => replacement) };
}

/**
 * Changes a record's value: one of its lines, which are JSON, or the plain string.
 *
 * @param {string} value @param {Random} random
 */
export function mutateValue(value, random) {
  const lines = value.split("\n");
  const index = Math.floor(random() * lines.length);
  const line = /** @type {string} */ (lines[index]);
  if (random() < 0.04) return { kind: "lines", value: lines.filter((_, at) => at !== index).join("\n") };
  if (random() < 0.03) return { kind: "truncated", value: value.slice(0, Math.floor(random() * value.length)) };
  let isJson = true;
  try {
    JSON.parse(line);
  } catch {
    isJson = false;
  }
  // A record such as a counter is a string of digits: it is JSON too, but it need not stay JSON.
  if (!isJson || random() < 0.05) {
    const text = random() < 0.5 ? pick(random, STRINGS) : pick(random, NUMBERS);
    return { kind: "text", value: lines.map((each, at) => (at === index ? text : each)).join("\n") };
  }
  const { kind, json } = mutateJson(line, random);
  return { kind, value: lines.map((each, at) => (at === index ? json : each)).join("\n") };
}

/** Changes refs. @param {string} refs @param {Random} random @param {number} [own] the number of the item that has the refs */
export function mutateRefs(refs, random, own) {
  const entries = refs === "" ? [] : refs.split(";");
  const replacements = [
    "0+500000000",
    "0+9007199254740990",
    "9007199254740990+1",
    "0+100000",
    "4294967295:0+5",
    "1:0+20",
    "7:0+3",
    "999999:0+1",
    "0+0",
    "-1+5",
    "0+-1",
    "1e9+1",
    "a",
    "",
    ",,,",
    "0+1,".repeat(50_000) + "0+1",
    "0+30,".repeat(3000) + "0+1",
    "9".repeat(400) + "+1",
    `#${"0".repeat(64)}`,
    "#../../canary/file",
    "#",
    `#${"A".repeat(64)}`,
    ...(own === undefined ? [] : [`${own}+1`, `0+${own + 1}`, `${own}+2`, `${own + 1}+1`, `${Math.max(0, own - 1)}+3`]),
  ];
  const text = pick(random, replacements);
  const index = Math.floor(random() * (entries.length + 1));
  if (random() < 0.15) return entries.filter((_, at) => at !== index).join(";");
  if (random() < 0.1) return entries.reverse().join(";");
  entries[index] = text;
  return entries.join(";");
}
