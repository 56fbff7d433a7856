/** A small store of plain files, damaged everywhere: reads return correct data or report the damage, and nothing crashes. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Fault, flips, type Offender, SmallStore, truncations, truncationsAtLines, type Wound } from "./sweep.js";
import { FILES } from "./world.js";

/** All of them take minutes on a busy machine: DAMAGE_SWEEP=all asks for that. */
const EVERY = process.env["DAMAGE_SWEEP"] === "all" ? 1 : 3;

/** A busy machine takes its time. */
const PATIENCE = 600_000;

describe("a store of plain files", () => {
  let store: SmallStore;
  const offenders: Offender[] = [];
  const withFault = (...faults: Fault[]): string[] =>
    offenders.filter(({ fault }) => faults.includes(fault)).map(({ what }) => what.slice(0, 300));

  beforeAll(async () => {
    store = await SmallStore.make(FILES);
  });
  afterAll(() => store.remove());

  async function sweep(wounds: (name: string, bytes: Buffer) => Iterable<Wound>): Promise<void> {
    for (const [name, bytes] of store.files) {
      for (const wound of wounds(name, bytes)) offenders.push(...(await store.try(wound)));
    }
    expect(withFault("crash", "wrong", "unreported")).toEqual([]);
  }

  it("is small, and has all kinds of files", () => {
    const names = [...store.files.keys()].join(" ");
    for (const part of ["commits", "records", "tapes/", "blobs/"]) expect(names).toContain(part);
    expect([...store.files.values()].reduce((sum, { length }) => sum + length, 0)).toBeLessThan(16_000);
  });

  it(
    `returns correct data or reports damage if a byte is changed (${EVERY === 1 ? "each" : "every 3rd"}, a rotating bit)`,
    { timeout: PATIENCE },
    async () => {
      await sweep((name, bytes) => flips(name, bytes, EVERY));
      expect(store.kinds).toBeGreaterThan(40);
    },
  );

  it(
    "returns correct data or reports damage if a file is truncated (every 4th to 12th length, and around line ends)",
    { timeout: PATIENCE },
    async () => {
      await sweep(function* (name, bytes) {
        yield* truncations(name, bytes, 4 * EVERY);
        yield* truncationsAtLines(name, bytes);
      });
    },
  );

  it("returns correct data or reports damage if a file is removed", async () => {
    await sweep((file) => [{ file, what: "removed", bytes: undefined }]);
  });

  it("is restored completely if a repair from a backup reports success", () => expect(withFault("repair")).toEqual([]));

  it("never reports saved data as missing", () => expect(withFault("undefined")).toEqual([]));

  it("always reports it if a part of what it returns is missing", () => expect(withFault("untold")).toEqual([]));
});
