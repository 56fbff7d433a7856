/** Changes a SQLite store: rows, chunks, the write buffer and blobs, with checksums that fit. */
import { deflateRawSync } from "node:zlib";
import { pick } from "../../chaos/random.mjs";
import { checksum, decodeCommit, encodeCommit, openDatabase, packChunk, unpackChunk } from "./internals.mjs";
import { mutateItem, mutateRecord, Numbers } from "./records.mjs";
import { mutateJson } from "./values.mjs";

/** @typedef {import("./values.mjs").Random} Random */
/** @typedef {import("../../../src/store/sqlite/driver.js").SqliteDatabase} Database */
/** @typedef {import("../../../src/store/chunks/chunk-codec.js").ChunkRow & { id: number }} Chunk */
/** @typedef {import("./records.mjs").Mutation} Mutation */

/** @param {string} path the database file @param {Random} random @returns {Promise<Mutation>} */
export async function mutateSqlite(path, random) {
  const database = await openDatabase(path);
  try {
    const records = /** @type {import("./records.mjs").StoredRecord[]} */ (
      database.prepare("SELECT key, value, refs FROM savepoint_record").all()
    );
    const numbers = new Numbers(records);
    for (;;) {
      const mutate = pick(random, [
        changeRecord,
        changeRecord,
        changeRecord,
        changeItem,
        changeItem,
        changeChunk,
        changeBuffer,
        changeBlob,
      ]);
      const mutation = mutate(database, numbers, random);
      // Only what belongs to others may change.
      if (mutation) return mutation;
    }
  } finally {
    database.close();
  }
}

/** @param {Database} database @param {Numbers} numbers @param {Random} random @returns {Mutation | undefined} */
function changeRecord(database, numbers, random) {
  const records = /** @type {import("./records.mjs").StoredRecord[]} */ (
    database.prepare("SELECT key, value, refs FROM savepoint_record").all()
  );
  // Every kind of record gets the same share, however many there are of it.
  const kind = pick(random, [...new Set(records.map(({ key }) => kindOf(key)))]);
  const record = pick(
    random,
    records.filter(({ key }) => kindOf(key) === kind),
  );
  const { kind: change, records: replaced } = mutateRecord(record, records, numbers, random);
  const owners = [record, ...replaced].map(({ key }) => numbers.ownerOf(key));
  if (owners.some((owner) => numbers.isVictim(owner))) return undefined;
  if (replaced.some(({ key }) => records.some((other) => other.key === key && numbers.isVictim(other.value))))
    return undefined;
  database.prepare("DELETE FROM savepoint_record WHERE key = ?").run(record.key);
  const isBlob = random() < 0.03;
  for (const { key, value, refs } of replaced) {
    const stored = isBlob ? Buffer.from(value) : value;
    database
      .prepare("INSERT OR REPLACE INTO savepoint_record (key, sum, refs, value) VALUES (?, ?, ?, ?)")
      .run(key, checksum(key, refs, stored), refs, stored);
  }
  return { kind: isBlob ? "record as bytes" : `record ${change}`, detail: describe(record, replaced), touched: owners };
}

/** @param {import("./records.mjs").StoredRecord} before @param {import("./records.mjs").StoredRecord[]} after */
export function describe(before, after) {
  /** @param {import("./records.mjs").StoredRecord} record */
  const show = ({ key, value, refs }) => `${key} = ${value.slice(0, 150)} refs ${refs.slice(0, 60)}`;
  return JSON.stringify([show(before), ...after.map(show)]);
}

/** A letter, and whether an id or a number follows it. @param {string} key */
export function kindOf(key) {
  return (
    key.slice(0, 2).replace(/[^\t]$/, "#") +
    (key.split("\t").length > 3 ? key.split("\t")[3]?.[0] : key.split("\t").length)
  );
}

/** @param {Database} database @param {Numbers} numbers @param {Random} random */
function pickChunk(database, numbers, random) {
  const chunks = /** @type {Chunk[]} */ (database.prepare("SELECT * FROM savepoint_chunk").all());
  const others = chunks.filter(({ tape }) => numbers.isFree(tape));
  const several = others.filter(({ count }) => count > 1);
  return pick(random, random() < 0.5 && several.length > 0 ? several : others);
}

/** @param {Database} database @param {Numbers} numbers @param {Random} random @returns {Mutation | undefined} */
function changeItem(database, numbers, random) {
  const chunk = pickChunk(database, numbers, random);
  const frames = unpackChunk(chunk);
  if ("unreadable" in frames) return undefined;
  const items = frames.map((frame, index) => ({
    tape: chunk.tape,
    item: chunk.first + index,
    .../** @type {{ json: string, refs: string }} */ (frame),
  }));
  const index = Math.floor(random() * items.length);
  const { kind, frame } = mutateItem(/** @type {typeof items[0]} */ (items[index]), items, random);
  const row = packChunk(
    chunk.tape,
    chunk.first,
    items.map((item, at) => (at === index ? frame : item)),
  );
  replaceChunk(database, chunk.id, row);
  return {
    kind,
    detail: `item ${chunk.first + index} of tape ${chunk.tape}: ${frame.json.slice(0, 150)} refs ${frame.refs.slice(0, 60)}`,
    touched: [numbers.ownerOfTape(chunk.tape)],
  };
}

/** @param {Database} database @param {number} id @param {import("../../../src/store/chunks/chunk-codec.js").ChunkRow} row */
function replaceChunk(database, id, { tape, first, count, codec, sum, head, body }) {
  database
    .prepare(
      "UPDATE OR REPLACE savepoint_chunk SET tape = ?, first = ?, count = ?, codec = ?, sum = ?, head = ?, body = ? WHERE id = ?",
    )
    .run(tape, first, count, codec, sum, head, body, id);
}

/** 300 MB that compress to 300 kB. */
let bomb = /** @type {Buffer | undefined} */ (undefined);

/** @param {Database} database @param {Numbers} numbers @param {Random} random @returns {Mutation | undefined} */
function changeChunk(database, numbers, random) {
  const chunk = pickChunk(database, numbers, random);
  let { tape, first, count, codec, head, body } = chunk;
  const kind = pick(random, [
    "first",
    "count",
    "codec",
    "head cut",
    "head bytes",
    "head lengths",
    "body cut",
    "body longer",
    "bomb",
    "tape",
  ]);
  if (kind === "first") first = pick(random, [0, -1, 5, 2 ** 31, Number.MAX_SAFE_INTEGER, first + 1]);
  if (kind === "count") count = pick(random, [0, -1, 1, count + 1, 64, 100_000, 2 ** 31, Number.MAX_SAFE_INTEGER]);
  if (kind === "codec") codec = pick(random, [0, 1, 2, 3, -1, 2 ** 40]);
  if (kind === "head cut") head = head.slice(0, Math.floor(random() * head.length));
  if (kind === "head bytes")
    head = Buffer.from(head).fill(pick(random, [0, 127, 128, 255]), Math.floor(random() * head.length));
  if (kind === "head lengths") {
    const from = Math.min(4, head.length);
    head = Buffer.from(head).fill(pick(random, [0, 255]), from, Math.min(head.length, from + Math.ceil(random() * 8)));
  }
  if (kind === "body cut") body = body.slice(0, Math.floor(random() * body.length));
  if (kind === "body longer") body = Buffer.concat([body, Buffer.alloc(1 << 16, "x")]);
  if (kind === "tape") tape = pick(random, ["", "../../canary/file", "\u0000", `${tape}0`, "zz", "x".repeat(5000)]);
  if (kind === "bomb") [codec, body] = [1, (bomb ??= deflateRawSync(Buffer.alloc(300 << 20), { level: 1 }))];
  if (count === 1) {
    const sum = checksum(tape, first, Buffer.from(head).toString("utf8"), Buffer.from(body).toString("utf8"));
    replaceChunk(database, chunk.id, { tape, first, count, codec, sum, head, body });
  } else {
    const bytes = Buffer.from(head);
    if (bytes.length >= 4) bytes.writeUInt32LE(checksum(body), 0);
    const sum = checksum(tape, first, count, codec, bytes);
    replaceChunk(database, chunk.id, { tape, first, count, codec, sum, head: bytes, body });
  }
  return {
    kind: `chunk ${kind}`,
    detail: `tape ${chunk.tape}, first ${chunk.first} → ${first}, count ${chunk.count} → ${count}, codec ${codec}`,
    touched: [numbers.ownerOfTape(chunk.tape)],
  };
}

/** @param {Database} database @param {Numbers} numbers @param {Random} random @returns {Mutation | undefined} */
function changeBuffer(database, numbers, random) {
  const rows = /** @type {(import("../../../src/store/sqlite/buffer-codec.js").BufferRow & { id: number })[]} */ (
    database.prepare("SELECT * FROM savepoint_buffer").all()
  );
  if (rows.length === 0) return undefined;
  const row = pick(random, rows);
  const commit = decodeCommit(row);
  if (!commit || "lost" in commit) return undefined;
  const owners = [
    ...commit.puts.map(({ key }) => numbers.ownerOf(key)),
    ...commit.items.map(({ tape }) => numbers.ownerOfTape(tape)),
  ];
  if (owners.some((owner) => numbers.isVictim(owner))) return undefined;
  let changed = row;
  let kind = "buffer header";
  const text = Buffer.from(row.body).toString("utf8");
  if (random() < 0.5 && commit.puts.length > 0) {
    const record = pick(random, commit.puts);
    const { kind: change, records } = mutateRecord(record, commit.puts, numbers, random);
    if (records.some(({ key }) => numbers.isVictim(numbers.ownerOf(key)))) return undefined;
    owners.push(...records.map(({ key }) => numbers.ownerOf(key)));
    kind = `buffer ${change}`;
    changed = {
      ...row,
      ...encodeCommit({ ...commit, puts: commit.puts.flatMap((put) => (put === record ? records : [put])) }),
    };
  } else if (random() < 0.7) {
    const end = text.indexOf("\n");
    const { json } = mutateJson(text.slice(0, end), random);
    const body = Buffer.from(`${json}${text.slice(end)}`);
    changed = { ...row, body, sum: checksum(body.toString("utf8")) };
  } else {
    kind = "buffer keys";
    const keys = mutateJson(row.keys, random).json;
    // The body is damaged, so that the keys count.
    changed = { ...row, keys, keys_sum: checksum(keys), body: Buffer.from("x") };
  }
  database
    .prepare("UPDATE savepoint_buffer SET keys = ?, keys_sum = ?, sum = ?, body = ? WHERE id = ?")
    .run(changed.keys, changed.keys_sum, changed.sum, changed.body, row.id);
  return { kind, detail: Buffer.from(changed.body).toString("utf8").slice(0, 200), touched: [...owners, ...IN_BUFFER] };
}

/** A commit that is not applied can be any session's last one, and those after it need it. */
const IN_BUFFER = ["alpha", "beta"];

/** @param {Database} database @param {Numbers} _ @param {Random} random @returns {Mutation | undefined} */
function changeBlob(database, _, random) {
  if (random() < 0.7) return undefined;
  const blobs = /** @type {{ hash: string }[]} */ (database.prepare("SELECT hash FROM savepoint_blob").all());
  if (blobs.length === 0) return undefined;
  const { hash } = pick(random, blobs);
  const kind = pick(random, ["hash", "used", "bomb"]);
  const copy =
    "INSERT INTO savepoint_blob (hash, used_at, codec, body) SELECT ?, ?, codec, body FROM savepoint_blob WHERE hash = ?";
  if (kind === "hash")
    database.prepare(copy).run(pick(random, ["", "../../canary/file", "x".repeat(5000), "\u0000"]), 0, hash);
  if (kind === "used")
    database
      .prepare("UPDATE savepoint_blob SET used_at = ? WHERE hash = ?")
      .run(pick(random, [-1, 2 ** 52, Number.MAX_SAFE_INTEGER]), hash);
  if (kind === "bomb") {
    bomb ??= deflateRawSync(Buffer.alloc(300 << 20), { level: 1 });
    database
      .prepare("INSERT INTO savepoint_blob (hash, used_at, codec, body) VALUES (?, 0, 1, ?)")
      .run("0".repeat(64), bomb);
  }
  return { kind: `blob ${kind}`, detail: hash, touched: [] };
}
