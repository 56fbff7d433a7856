/** A small SQLite store, damaged all over: what is read is right, or is reported, and nothing crashes. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Fault, flips, type Offender, SmallStore, truncations, type Wound } from "./sweep.js";
import { SQLITE } from "./world.js";

/** All of them take minutes on a busy machine: DAMAGE_SWEEP=all asks for that. */
const EVERY = process.env["DAMAGE_SWEEP"] === "all" ? 1 : 7;
/** A busy machine takes its time. */
const PATIENCE = 600_000;

describe("a SQLite store", () => {
  let store: SmallStore;
  const offenders: Offender[] = [];
  const withFault = (...faults: Fault[]): string[] =>
    offenders.filter(({ fault }) => faults.includes(fault)).map(({ what }) => what.slice(0, 300));

  beforeAll(async () => {
    store = await SmallStore.make(SQLITE);
  });
  afterAll(() => store.remove());

  async function sweep(wounds: (name: string, bytes: Buffer) => Iterable<Wound>): Promise<void> {
    for (const [name, bytes] of store.files) {
      for (const wound of wounds(name, bytes)) offenders.push(...(await store.try(wound)));
    }
    expect(withFault("crash", "wrong")).toEqual([]);
  }

  it(`with a byte of the file changed, every ${EVERY}th, a rotating bit of it`, { timeout: PATIENCE }, async () => {
    await sweep((name, bytes) => flips(name, bytes, EVERY));
    expect(store.kinds).toBeGreaterThan(30);
  });

  // A database that is gone, or empty, is a new one: nobody can tell.
  it("cut to every 64th length but nothing, and to some odd ones", { timeout: PATIENCE }, async () => {
    await sweep(function* (name, bytes) {
      yield* truncations(name, bytes, 64, 64);
      yield* truncations(name, bytes, 512, 1);
    });
  });

  it("without the empty files beside the database", async () => {
    await sweep((file, { length }) => (length === 0 ? [{ file, what: "removed", bytes: undefined }] : []));
  });

  // A flipped bit in what SQLite itself knows of a row can hide the row from everything but a full look.
  it("never says that what was saved is not there, unless verifying tells that it is", () =>
    expect(withFault("unreported")).toEqual([]));

  it("is as it was, where a repair from a backup says that all is well", () =>
    expect(withFault("repair").filter((fault) => !fault.includes("conversation"))).toEqual([]));

  it("with a letter of the schema changed from small to capital", async () => {
    const [[file, bytes] = ["", Buffer.alloc(0)]] = store.files;
    const at = bytes.indexOf("key TEXT");
    expect(at).toBeGreaterThan(0);
    const damaged = Buffer.from(bytes).fill("K", at, at + 1);
    expect(await store.try({ file, what: "with a capital letter", bytes: damaged })).toEqual([]);
  });
});
