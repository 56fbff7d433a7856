/** Changes a file store: lines of data files and of the commit log, with checksums and sizes that fit. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { pick } from "../../chaos/random.mjs";
import { encodeLine, encodeValueLine, parseLine } from "./internals.mjs";
import { mutateItem, mutateRecord, Numbers } from "./records.mjs";
import { VICTIM } from "./seed.mjs";
import { mutateJson } from "./values.mjs";
import { describe, kindOf } from "./sqlite.mjs";

/** @typedef {import("./values.mjs").Random} Random */
/** @typedef {import("./records.mjs").Mutation} Mutation */
/** @typedef {{ file: string, index: number, text: string, fields: Record<string, any>, value: string | undefined }} DataLine */

/** Any session but the victim; and the victim too, because the log and footers decide what of every session counts. */
const ALL = "*";
const EVERYTHING = VICTIM;

/** @param {string} folder @param {Random} random @returns {Mutation} */
export function mutateFiles(folder, random) {
  const tapes = readdirSync(join(folder, "tapes")).filter((name) => name.endsWith(".jsonl"));
  const files = ["records.jsonl", ...tapes.map((name) => join("tapes", name))];
  const lines = files.flatMap((file) => readLines(folder, file));
  const log = readLines(folder, "commits.jsonl");
  const records = lines.flatMap(({ fields, value = "" }) =>
    "put" in fields ? [{ key: fields["put"], value, refs: fields["refs"] ?? "" }] : [],
  );
  const numbers = new Numbers(records);
  for (;;) {
    const mutation = pick(random, [changeRecord, changeRecord, changeItem, changeHead, moveLine, addCommit, changeLog])(
      folder,
      lines,
      log,
      records,
      numbers,
      random,
    );
    if (mutation) return mutation;
  }
}

/** @param {string} folder @param {string} file @returns {DataLine[]} */
function readLines(folder, file) {
  const texts = readFileSync(join(folder, file), "utf8").split("\n").slice(0, -1);
  return texts.flatMap((text, index) => {
    const line = parseLine(Buffer.from(text));
    return line
      ? [
          {
            file,
            index,
            text,
            fields: /** @type {Record<string, any>} */ (line.fields),
            value: text.includes(',"value":') ? line.value() : undefined,
          },
        ]
      : [];
  });
}

/**
 * Replaces a line by others, and corrects the sizes in the log.
 *
 * @param {string} folder @param {DataLine} line @param {readonly string[]} replacement encoded lines @param {readonly DataLine[]} log
 */
function replaceLine(folder, line, replacement, log) {
  const path = join(folder, line.file);
  const texts = readFileSync(path, "utf8").split("\n").slice(0, -1);
  const before = texts.slice(0, line.index + 1).reduce((sum, text) => sum + Buffer.byteLength(text) + 1, 0);
  const added = replacement.reduce((sum, text) => sum + Buffer.byteLength(text), 0) - Buffer.byteLength(line.text) - 1;
  texts.splice(line.index, 1, ...replacement.map((text) => text.slice(0, -1)));
  writeFileSync(path, texts.map((text) => `${text}\n`).join(""));
  if (line.file === "commits.jsonl") return;
  const name = line.file.replace(/^tapes./, "").replace(/\.jsonl$/, "");
  const fixed = log.map(({ fields, text }) => {
    const isLater = fields["file"] === name && Number(fields["size"]) >= before;
    return isLater ? encodeLine({ ...fields, size: fields["size"] + added }) : `${text}\n`;
  });
  writeFileSync(join(folder, "commits.jsonl"), fixed.join(""));
}

/** @param {string} folder @param {DataLine[]} lines @param {DataLine[]} log @param {import("./records.mjs").StoredRecord[]} records @param {Numbers} numbers @param {Random} random @returns {Mutation | undefined} */
function changeRecord(folder, lines, log, records, numbers, random) {
  const puts = lines.filter(({ fields }) => "put" in fields);
  const kind = pick(random, [...new Set(puts.map(({ fields }) => kindOf(fields["put"])))]);
  // Mostly the newest version, which counts.
  const line = pick(
    random,
    puts
      .filter(({ fields }) => kindOf(fields["put"]) === kind)
      .sort((a, b) => b.fields["at"] - a.fields["at"])
      .slice(0, 6),
  );
  const record = { key: line.fields["put"], value: line.value ?? "", refs: line.fields["refs"] ?? "" };
  const { kind: change, records: replaced } = mutateRecord(record, records, numbers, random);
  const owners = [record, ...replaced].map(({ key }) => numbers.ownerOf(key));
  if (owners.some((owner) => numbers.isVictim(owner))) return undefined;
  replaceLine(
    folder,
    line,
    replaced.map(({ key, value, refs }) =>
      encodeValueLine({ put: key, at: line.fields["at"], ...(refs !== "" && { refs }) }, value),
    ),
    log,
  );
  // The footer lists the key: without it there, the commit is damaged, which is a case of its own.
  if (random() < 0.8)
    fixFooter(
      folder,
      line,
      record.key,
      replaced.map(({ key }) => key),
    );
  return { kind: `record ${change}`, detail: describe(record, replaced), touched: owners };
}

/** @param {string} folder @param {DataLine} line @param {string} before @param {readonly string[]} keys */
function fixFooter(folder, line, before, keys) {
  for (const file of [line.file, "commits.jsonl"]) {
    const all = readLines(folder, file);
    const footer = all.find(
      ({ fields }) =>
        Array.isArray(fields["holds"]) &&
        fields["holds"].some((held) => held.put === before && held.at === line.fields["at"]),
    );
    if (!footer) continue;
    const holds = footer.fields["holds"].flatMap((/** @type {any} */ held) =>
      held.put === before ? keys.map((put) => ({ ...held, put })) : [held],
    );
    replaceLine(folder, footer, [encodeLine({ ...footer.fields, holds })], readLines(folder, "commits.jsonl"));
  }
}

/** @type {typeof changeRecord} */
function changeItem(folder, lines, log, _, numbers, random) {
  const items = lines.filter(({ fields }) => "item" in fields && numbers.isFree(fields["tape"]));
  const line = pick(random, items);
  const { item, tape, at } = line.fields;
  const all = items
    .filter(({ fields }) => fields["tape"] === tape)
    .map(({ fields, value = "" }) => ({ tape, item: fields["item"], json: value, refs: fields["refs"] ?? "" }));
  const { kind, frame } = mutateItem(
    { tape, item, json: line.value ?? "", refs: line.fields["refs"] ?? "" },
    all,
    random,
  );
  replaceLine(
    folder,
    line,
    [encodeValueLine({ item, tape, at, ...(frame.refs !== "" && { refs: frame.refs }) }, frame.json)],
    log,
  );
  return {
    kind,
    detail: `item ${item} of tape ${tape}: ${frame.json.slice(0, 150)} refs ${frame.refs.slice(0, 60)}`,
    touched: [numbers.ownerOfTape(tape)],
  };
}

/** A line of fields that need not be what `JSON.stringify` writes. @param {string} json an object @param {string} [value] */
function encodeRaw(json, value) {
  const line = value === undefined ? undefined : encodeValueLine({ put: "", at: 0 }, value);
  const body =
    json.slice(0, -1) + (line === undefined ? "" : line.slice(line.indexOf(',"value":'), line.lastIndexOf(',"sum":')));
  return `${body},"sum":${crc32(body)}}\n`;
}

/** Everything in a line except its value: numbers, tapes, spans, hashes, what a footer lists. @type {typeof changeRecord} */
function changeHead(folder, lines, log, _, numbers, random) {
  const kind = pick(random, ["put", "item", "blob", "delete", "free", "drop", "commit", "savepoint"]);
  const some = lines.filter(
    ({ fields, text }) => kind in fields && !text.includes("victim") && !numbers.isVictim(ownerOfLine(fields, numbers)),
  );
  if (some.length === 0) return undefined;
  const line = pick(random, some);
  const { kind: change, json } = mutateJson(JSON.stringify(line.fields), random);
  if (!json.endsWith("}") || json.includes("victim")) return undefined;
  replaceLine(folder, line, [encodeRaw(json, line.value)], log);
  const touched = ["commit", "savepoint", "delete", "free"].includes(kind) ? [ALL, EVERYTHING] : [ALL];
  return {
    kind: `head of ${kind}: ${change}`,
    detail: `${line.file}: ${line.text.slice(0, 120)} → ${json.slice(0, 200)}`,
    touched,
  };
}

/** @param {Record<string, any>} fields @param {Numbers} numbers */
function ownerOfLine(fields, numbers) {
  return typeof fields["tape"] === "string"
    ? numbers.isFree(fields["tape"])
      ? numbers.ownerOfTape(fields["tape"])
      : VICTIM
    : typeof fields["put"] === "string"
      ? numbers.ownerOf(fields["put"])
      : "";
}

/** @type {typeof changeRecord} */
function moveLine(folder, lines, log, _, numbers, random) {
  const others = lines.filter(
    ({ fields, text }) =>
      !text.includes("victim") &&
      !numbers.isVictim(ownerOfLine(fields, numbers)) &&
      ("put" in fields || "item" in fields),
  );
  const line = pick(random, others);
  const other = pick(random, others);
  const kind = pick(random, ["removed", "duplicated", "of another file"]);
  const text = `${line.text}\n`;
  replaceLine(folder, line, kind === "removed" ? [] : kind === "duplicated" ? [text, text] : [`${other.text}\n`], log);
  return { kind: `line ${kind}`, detail: `${line.file}: ${line.text.slice(0, 150)}`, touched: [ALL] };
}

/** Adds a commit at the end of a file. @type {typeof changeRecord} */
function addCommit(folder, lines, log, _, numbers, random) {
  const last = Math.max(...lines.map(({ fields }) => Number(fields["at"] ?? fields["commit"] ?? 0)));
  const at = pick(random, [last + 1, last + 1, last + 1, Number.MAX_SAFE_INTEGER, 2 ** 40]);
  const outside = [
    "../../canary/file",
    "../../../canary/file",
    "..",
    ".",
    "",
    "/etc/hostname",
    "a/b",
    "\u0000",
    "x".repeat(5000),
  ];
  const subject = pick(random, [
    { drop: pick(random, outside), at },
    { blob: pick(random, outside), used: 0, bytes: 5, at },
    { blob: "0".repeat(64), used: 2 ** 52, bytes: -5, at },
    {
      item: pick(random, [0, -1, 0.5, 2 ** 40, Number.MAX_SAFE_INTEGER]),
      tape: pick(random, [...outside, "1010"]),
      at,
    },
    { free: pick(random, [...outside, "zz"]), spans: [[0, pick(random, [1, 1e9, Number.MAX_SAFE_INTEGER, -1])]], at },
    { free: pick(random, outside), spans: pick(random, [null, {}, [[]], [null], [[1]]]), at },
    { delete: pick(random, [null, 5, {}, { from: 5, to: null }, { from: "y", to: "x" }]), at },
    { nothing: 1, at },
  ]);
  const text = "item" in subject ? encodeValueLine(/** @type {any} */ (subject), "1") : encodeLine(subject);
  const count = pick(random, [undefined, undefined, 1e9, -1, 0.5]);
  const held = "item" in subject && count !== undefined ? { ...subject, count } : subject;
  const footer = encodeLine({ commit: at, holds: [held] });
  const file = pick(
    random,
    lines.filter((line) => !numbers.isVictim(numbers.ownerOfTape(line.file.slice("tapes/t-".length)))),
  ).file;
  const end = /** @type {DataLine} */ (lines.filter((line) => line.file === file).at(-1));
  replaceLine(folder, end, [`${end.text}\n`, text, footer], random() < 0.5 ? log : []);
  return {
    kind: `commit added: ${Object.keys(subject)[0]}`,
    detail: `${file}: ${text.slice(0, 200)}${footer.slice(0, 200)}`,
    touched: [ALL],
  };
}

/** @type {typeof changeRecord} */
function changeLog(folder, _lines, log, _records, _numbers, random) {
  const line = pick(random, log);
  const path = {
    file: pick(random, [
      "../../../canary/file",
      "../../../canary/log",
      "../commits",
      "",
      "/etc/hostname",
      "\u0000",
      "x".repeat(5000),
    ]),
  };
  const isPath = "file" in line.fields && random() < 0.3;
  const { kind, json } = isPath
    ? { kind: "file", json: JSON.stringify({ ...line.fields, ...path }) }
    : mutateJson(JSON.stringify(line.fields), random);
  if (!json.endsWith("}")) return undefined;
  replaceLine(folder, line, random() < 0.1 ? [] : [encodeRaw(json)], log);
  return {
    kind: `log: ${kind}`,
    detail: `${line.text.slice(0, 150)} → ${json.slice(0, 200)}`,
    touched: [ALL, EVERYTHING],
  };
}
