/** Changes a bundle, with hashes that fit. */
import { createHash } from "node:crypto";
import { pick } from "../../chaos/random.mjs";
import { mutateItem } from "./records.mjs";
import { IDS, mutateJson, mutateRefs, mutateValue } from "./values.mjs";

/** @typedef {import("./values.mjs").Random} Random */

/** @param {string} text */
const sha256 = (text) => createHash("sha256").update(text).digest("hex");

/** @param {Uint8Array} bundle @param {Random} random @returns {{ bytes: Uint8Array, mutation: import("./records.mjs").Mutation }} */
export function mutateBundle(bundle, random) {
  const lines = Buffer.from(bundle).toString("utf8").split("\n").slice(0, -1);
  const kinds = lines.map((line) => Object.keys(JSON.parse(line))[0] ?? "");
  const kind = pick(
    random,
    [...new Set(kinds)].filter((each) => each !== "end" && each !== "complete"),
  );
  const index = pick(
    random,
    kinds.flatMap((each, at) => (each === kind ? [at] : [])),
  );
  const line = /** @type {string} */ (lines[index]);
  const { change, changed } = changeLine(kind, line, lines, random);
  const detail = `${line.slice(0, 150)} → ${changed.map((each) => each.slice(0, 200)).join(" | ")}`;
  const bytes = Buffer.from(
    rehash(
      lines.flatMap((each, at) => (at === index ? changed : [each])),
      random,
    ),
  );
  return { bytes, mutation: { kind: `${kind}: ${change}`, detail, touched: [] } };
}

/** @param {string} kind @param {string} line @param {readonly string[]} lines @param {Random} random @returns {{ change: string, changed: string[] }} */
function changeLine(kind, line, lines, random) {
  const roll = random();
  if (roll < 0.05) return { change: "line removed", changed: [] };
  if (roll < 0.1) return { change: "line duplicated", changed: [line, line] };
  if (roll < 0.2) return { change: "line of another place", changed: [pick(random, lines.slice(1)), line] };
  if (roll < 0.25) return { change: "line added", changed: [line, forgeLine(random)] };
  const value = JSON.parse(line);
  if (roll < 0.65) {
    for (const field of ["value", "session", "run", "due", "attached", "items", "refs", "note", "attachments"]) {
      if (!(field in value)) continue;
      const { change, part } = changeField(field, value[field], random);
      return { change, changed: [JSON.stringify({ ...value, [field]: part })] };
    }
  }
  const { sha256: _, ...rest } = value;
  const { kind: change, json } = mutateJson(JSON.stringify(kind === "savepoint" ? rest : value), random);
  return { change, changed: [json] };
}

/** @param {string} field @param {any} part @param {Random} random @returns {{ change: string, part: unknown }} */
function changeField(field, part, random) {
  if (field === "refs") return { change: "refs", part: mutateRefs(part, random) };
  if (typeof part === "string") {
    const { kind, value } = mutateValue(part, random);
    return { change: `${field} ${kind}`, part: value };
  }
  if (field === "items") {
    const [tape, first, frames] = part;
    const all = frames.map((/** @type {string[]} */ [json, refs = ""], /** @type {number} */ n) => ({
      tape: "",
      item: first + n,
      json,
      refs,
    }));
    const item = pick(random, all);
    const { kind, frame } = mutateItem(/** @type {any} */ (item), all, random);
    return {
      change: kind,
      part: [
        tape,
        first,
        all.map((/** @type {any} */ each) => (each === item ? [frame.json, frame.refs] : [each.json, each.refs])),
      ],
    };
  }
  const strings = part.flatMap((/** @type {unknown} */ each, /** @type {number} */ at) =>
    typeof each === "string" ? [at] : [],
  );
  const at = pick(random, strings);
  const isKey = at === 0;
  const { kind, value } = isKey
    ? { kind: "key", value: pick(random, [...IDS, "\tx\tr", "main\tj", "main\tr", "main\tm", "../x\tr"]) }
    : mutateValue(part[/** @type {number} */ (at)], random);
  return {
    change: `${field} ${kind}`,
    part: part.map((/** @type {unknown} */ each, /** @type {number} */ n) => (n === at ? value : each)),
  };
}

/** @param {Random} random */
function forgeLine(random) {
  return JSON.stringify(
    pick(random, [
      { items: [0, 1e9, [["1"]]] },
      { items: [2 ** 40, 0, [["1"]]] },
      { items: [-1, -1, [["1", "0+1"]]] },
      { blob: "0".repeat(64), bytes: "AAAA" },
      { blob: "../../canary/file", bytes: "AAAA" },
      { hole: [0, 0], reason: "\u001b[2J" },
      { hole: "../../canary/file", reason: "x" },
      { row: 1e9, value: '{"i":"x","s":0,"z":1,"w":1}\n1' },
      { note: [0, "label", "victim"] },
      { note: [-1, "pin", "1"] },
      { attached: [0, "x", '{"a":1}', "0+5"] },
      { attachments: "9007199254740991" },
      { branch: "x\ty", value: "{}" },
      { run: ["main\tr", "{}"] },
      { due: ["main", '["runner",0,9,null,[],null]'] },
      { session: '{"n":0,"t":0,"q":1,"p":1}' },
      { conversation: "victim", value: '{"n":0,"t":0}', count: 1e9, lastMessageAt: 0 },
      { gone: 0 },
      { again: true },
      { begin: "session", id: "victim", number: 0, createdAt: 0 },
      { begin: "holes" },
      { begin: "conversations", agent: "victim-agent", moves: [{ upTo: 1e15, by: 1 }], conversations: [] },
      { end: 1, sha256: "" },
    ]),
  );
}

/** Corrects all hashes and the numbers of sections. @param {readonly string[]} lines @param {Random} random */
function rehash(lines, random) {
  const hash = createHash("sha256");
  let [text, sections] = ["", 0];
  for (const line of lines) {
    let fixed = line;
    if (/^\{"(end|complete)":/.test(line)) {
      const name = line.startsWith('{"end"') ? "end" : "complete";
      if (name === "end") sections++;
      fixed = JSON.stringify({ [name]: sections, sha256: hash.copy().digest("hex") });
    } else if (text === "") {
      fixed = hashHeader(line);
    }
    hash.update(`${fixed}\n`);
    text += `${fixed}\n`;
  }
  return random() < 0.02 ? text.slice(0, Math.floor(random() * text.length)) : text;
}

/** Adds the hash of a header, which may be any JSON. @param {string} line */
function hashHeader(line) {
  try {
    const { sha256: _, ...header } = JSON.parse(line);
    return JSON.stringify({ ...header, sha256: sha256(JSON.stringify(header)) });
  } catch {
    // It is nested too deeply for an encoder, or it is no object.
    return line;
  }
}
