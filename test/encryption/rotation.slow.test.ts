/** Kills the process that changes the key of a store, at every passing of every write point, while two other processes write. */
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { MasterKey } from "../../src/encryption/master-key.js";
import { decodeDataKey, isAuthentic, parseHeader, placeOfDataKey } from "../../src/encryption/records.js";
import { isDataKeyRecord } from "../../src/encryption/data-keys.js";
import { Savepoint } from "../../src/index.js";
import { ALL_STORED_KEYS, ENCRYPTION_KEY } from "../../src/records/index.js";
import { scan } from "../../src/store/index.js";
import { openStore } from "../../src/store.js";
import { CRASH_KEYS, encryptionOf } from "../support/crash-keys.mjs";
import { type Line, LiveChild } from "./live-child.js";
import { passingsOf, type RotationStore, STORES } from "./rotation-stores.js";

const PROGRAM = fileURLToPath(new URL("./rotation-child.mjs", import.meta.url));

/** The sessions of a store before its key is changed. */
const SESSIONS = 40;
/** The sessions that each writer creates during the change. */
const CREATED = 18;
/** The commits of a rotation: the header, the data keys of the first page (16 records), and those of the next one (up to 64). */
const COMMITS = 3;

const open = (url: string, keys: string): Promise<Savepoint> =>
  Savepoint.open(url, { durability: "process", ...encryptionOf(keys) });

interface Outcome {
  /** How often each point was passed; `undefined` if the process that changed the key was killed. */
  readonly passings: Map<string, number> | undefined;
  /** The number of sessions that the process with the old key has created during the change. */
  readonly allowed: number;
  /** The number of sessions that it could not create. */
  readonly refused: number;
}

/** An encrypted store, two processes that write to it, and one that changes its key. */
class Rotation {
  readonly #url: string;
  /** Knows only the old key. */
  readonly #old: LiveChild;
  /** Knows both keys, and prefers the old one. */
  readonly #both: LiveChild;
  readonly #rotator: LiveChild;
  readonly #acknowledged = new Map<string, number>();
  /** The lines of the process with the old key. */
  #linesOfOld: readonly Line[] = [];

  private constructor(url: string, dieAt: string | undefined) {
    this.#url = url;
    this.#old = new LiveChild(PROGRAM, "write", url, "old", "old");
    this.#both = new LiveChild(PROGRAM, "write", url, "old,new", "both");
    this.#rotator = new LiveChild(PROGRAM, "rotateOnCommand", url, "new,old", dieAt);
  }

  /** @param dieAt the passing at which the process that changes the key is killed */
  static async start(url: string, dieAt?: string): Promise<Rotation> {
    await using sp = await open(url, "old");
    await Promise.all(Array.from({ length: SESSIONS }, (_, n) => sp.session(`before-${n}`).save({ n })));
    const rotation = new Rotation(url, dieAt);
    for (let n = 0; n < SESSIONS; n++) rotation.#acknowledged.set(`before-${n}`, n);
    return rotation;
  }

  /**
   * Changes the key while both writers create sessions. Returns how often each point was passed; `undefined` if the process that changes
   * the key was killed.
   *
   * @param isQuiet whether the writers create no sessions: one only saves to an existing session, and the other one waits
   */
  async changeKey(isQuiet: boolean): Promise<Map<string, number> | undefined> {
    await this.#rotator.waitFor((line) => "ready" in line, "the process that changes the key");
    for (const writer of this.#writers) await isSaving(writer);
    if (isQuiet) {
      await answer(this.#both, { pause: true }, "pause");
      // A process that writes alone leaves commits in the write buffer from its second commit on.
      for (let saves = 0; saves < 3; saves++) await isSaving(this.#old);
    } else {
      const numbers = Array.from({ length: CREATED }, (_, n) => n);
      this.#old.send({ create: numbers.map((n) => `old-${n}`) });
      this.#both.send({ create: numbers.map((n) => `both-${n}`) });
    }
    this.#rotator.send({ rekey: true });
    const ended = await this.#rotator.ended;
    expect(ended.stderr).toBe("");
    return passingsOf(ended);
  }

  /** Completes the change in this process while both writers continue. */
  async complete(): Promise<void> {
    await using sp = await open(this.#url, "new,old");
    await sp.rekey();
    expect((await sp.keys()).map(({ name }) => name)).toEqual(["new"]);
  }

  /** Checks what the writers can still do after the change, with the old key alone and with both keys. */
  async checkWriters(): Promise<void> {
    const created = await answer(this.#both, { create: ["both after"] }, "both after");
    expect(created).toMatchObject({ session: "both after" });
    expect(await answer(this.#old, { create: ["old after"] }, "old after")).toMatchObject({ code: "WRONG_KEY" });
    expect(await answer(this.#old, { read: "both after" }, "read")).toMatchObject({ code: "WRONG_KEY" });
    expect(await answer(this.#old, { rekey: true }, "rekey")).toMatchObject({ code: "WRONG_KEY" });
    for (const writer of this.#writers) {
      await isSaving(writer);
      const { lines, signal, stderr } = await writer.kill();
      expect({ signal, stderr }).toEqual({ signal: "SIGKILL", stderr: "" });
      if (writer === this.#old) this.#linesOfOld = lines;
      for (const { session, n } of lines) {
        if (typeof session === "string") this.#acknowledged.set(session, n as number);
      }
    }
  }

  /** Checks that the new key reads every acknowledged save, and that the old key decrypts nothing. */
  async checkStore(): Promise<void> {
    const refused = open(this.#url, "old");
    await expect(refused).rejects.toMatchObject({ code: "WRONG_KEY" });
    const keys = await dataKeysOf(this.#url);
    expect(keys.length).toBeGreaterThan(SESSIONS);
    expect(keys.filter(({ opensWith }) => opensWith.join() !== "new")).toEqual([]);
    await using sp = await open(this.#url, "new");
    const values = await Promise.all(
      [...this.#acknowledged].map(async ([session, n]) => {
        const state = (await sp.session(session).latest())?.state as { n: number } | undefined;
        return { session, n, isThere: (state?.n ?? -1) >= n };
      }),
    );
    expect(values.filter(({ isThere }) => !isThere)).toEqual([]);
    const { ok, problems } = await sp.verify({ deep: true });
    expect({ ok, problems }).toEqual({ ok: true, problems: [] });
  }

  /** How many sessions the process with the old key created during the change, and how many it could not create. */
  get creations(): Pick<Outcome, "allowed" | "refused"> {
    const count = (field: string): number =>
      this.#linesOfOld.filter((line) => /^old-\d+$/.test(String(line[field]))).length;
    return { allowed: count("session"), refused: count("refused") };
  }

  get #writers(): readonly LiveChild[] {
    return [this.#old, this.#both];
  }
}

/** Waits until a writer has saved once more. */
async function isSaving(writer: LiveChild): Promise<void> {
  await writer.waitFor((line) => "session" in line, "a save", writer.lineCount);
}

/** The answer of a writer to a command. @param what the session that it creates, or the field of the answer */
async function answer(writer: LiveChild, command: Line, what: string): Promise<Line> {
  const sent = writer.lineCount;
  writer.send(command);
  return writer.waitFor(
    (line) => line["session"] === what || line["refused"] === what || what in line,
    `the answer to ${JSON.stringify(command)}`,
    sent,
  );
}

/** The records that need a master key, each with the master keys that decrypt or authenticate it. */
async function dataKeysOf(url: string): Promise<{ record: string; opensWith: string[] }[]> {
  const store = await openStore(url, { durability: "process" });
  try {
    const masters = Object.entries(CRASH_KEYS).map(([name, bytes]) => new MasterKey(bytes, name));
    const [stored] = await store.get([ENCRYPTION_KEY]);
    const header = parseHeader(stored && "value" in stored ? stored.value : "");
    const namesOf = (opens: (key: MasterKey) => boolean): string[] =>
      masters.flatMap((key) => (opens(key) ? [key.name as string] : []));
    const keys = [{ record: ENCRYPTION_KEY, opensWith: namesOf((key) => isAuthentic(header, key)) }];
    for await (const record of scan(store, ALL_STORED_KEYS)) {
      if (!isDataKeyRecord(record.key)) continue;
      const { wrapped } = decodeDataKey("value" in record ? record.value : "");
      const place = placeOfDataKey(header, record.key);
      keys.push({ record: record.key, opensWith: namesOf((key) => key.unwrap(wrapped, place) !== undefined) });
    }
    return keys;
  } finally {
    await store.close();
  }
}

/**
 * Changes the key of a new store, and checks the outcome.
 *
 * @param dieAt the passing at which the process that changes the key is killed
 * @param options.isQuiet whether only one other process writes meanwhile
 */
async function rotate({ make }: RotationStore, dieAt?: string, { isQuiet = false } = {}): Promise<Outcome> {
  const { url, remove } = make();
  const rotation = await Rotation.start(url, dieAt);
  const passings = await rotation.changeKey(isQuiet);
  await rotation.complete();
  await rotation.checkWriters();
  await rotation.checkStore();
  await remove();
  return { passings, ...rotation.creations };
}

describe.each(STORES)("changing the key of an encrypted store ($kind)", (store) => {
  const timeout = 600_000;
  const all = store.commit.flatMap((point) => Array.from({ length: COMMITS }, (_, n) => `${point}@${n}`));

  it("passes exactly the write points at which the other tests kill its process", { timeout }, async () => {
    const { passings = new Map<string, number>() } = await rotate(store);
    for (const point of store.buffer) passings.delete(point);
    expect(passings).toEqual(new Map(store.commit.map((point) => [point, COMMITS])));
    expect([...store.commit, ...store.buffer, ...store.others].sort()).toEqual([...store.points].sort());
  });

  it("loses nothing, and the old key decrypts nothing, wherever its process is killed", { timeout }, async () => {
    const outcomes: Outcome[] = [];
    const killed: string[] = [];
    for (const passing of all) {
      const outcome = await rotate(store, passing);
      outcomes.push(outcome);
      if (!outcome.passings) killed.push(passing);
    }
    expect(killed).toEqual(all);
    // The process with the old key was creating sessions when the header was replaced.
    expect(outcomes.some(({ allowed, refused }) => allowed > 0 && refused > 0)).toBe(true);
  });

  it.each(store.buffer)("loses nothing when it is killed at %s with commits of another process", async (point) => {
    const { passings } = await rotate(store, `${point}@0`, { isQuiet: true });
    expect(passings).toBeUndefined();
  });
});
