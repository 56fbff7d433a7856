/** A small SQLite store, damaged in many places: reads return correct data or report the damage, and nothing crashes. */
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

  it(
    `returns correct data or reports damage if a byte is changed (every ${EVERY}th, a rotating bit)`,
    { timeout: PATIENCE },
    async () => {
      await sweep((name, bytes) => flips(name, bytes, EVERY));
      expect(store.kinds).toBeGreaterThan(30);
    },
  );

  // A missing or empty database cannot be distinguished from a new one.
  it(
    "returns correct data or reports damage if it is truncated (to every 64th length except 0, and some odd ones)",
    { timeout: PATIENCE },
    async () => {
      await sweep(function* (name, bytes) {
        yield* truncations(name, bytes, 64, 64);
        yield* truncations(name, bytes, 512, 1);
      });
    },
  );

  it("returns correct data without the empty files beside the database", async () => {
    await sweep((file, { length }) => (length === 0 ? [{ file, what: "removed", bytes: undefined }] : []));
  });

  // A flipped bit in SQLite's own data about a row can hide the row from everything but a full scan.
  it("never reports saved data as missing unless verify reports the damage", () =>
    expect(withFault("unreported")).toEqual([]));

  it("is restored completely if a repair from a backup reports success", () =>
    expect(withFault("repair").filter((fault) => !fault.includes("conversation"))).toEqual([]));

  it("tolerates a letter of the schema changed from lower to upper case", async () => {
    const [[file, bytes] = ["", Buffer.alloc(0)]] = store.files;
    const at = bytes.indexOf("key TEXT");
    expect(at).toBeGreaterThan(0);
    const damaged = Buffer.from(bytes).fill("K", at, at + 1);
    expect(await store.try({ file, what: "with a capital letter", bytes: damaged })).toEqual([]);
  });
});
