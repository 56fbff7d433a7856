/** Stores that outlive their process: a test can damage their data, or kill the process that writes. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, onTestFinished } from "vitest";
import { type DamageEvent, type OpenOptions, Savepoint } from "../../src/index.js";
import { WRITE_POINTS as FILE_POINTS } from "../../src/store/file/write-points.js";
import { WRITE_POINTS as SQLITE_POINTS } from "../../src/store/sqlite/options.js";
import { temporaryStore } from "../crash/children.js";
import { type DamageableFile, useDamageableFile } from "../model/damageable-file.js";
import { damageFiles } from "../store/file-damage.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

/** What a test needs to damage a store. */
export type Damageable = Pick<DamageableFile, "open" | "damage" | "flip" | "events">;

export interface Place {
  readonly name: string;
  /** Fresh data for every test of a suite, which can be damaged. */
  readonly useDamageable: () => Damageable;
  /** The URL of a new store, removed when the test has finished. */
  readonly temporaryStore: () => string;
  /** The points that every save passes. */
  readonly points: readonly string[];
}

export const PLACES: readonly Place[] = [
  {
    name: "sqlite:",
    useDamageable: useDamageableFile,
    temporaryStore,
    points: SQLITE_POINTS.filter((point) => !point.startsWith("seal")),
  },
  {
    name: "file:",
    useDamageable: useDamageableFolder,
    temporaryStore: temporaryFolder,
    points: FILE_POINTS.filter((point) => !point.includes(":")),
  },
];

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "savepoint-crash-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return `file:${join(folder, "store")}`;
}

function useDamageableFolder(): Damageable {
  let folder: string;
  let events: DamageEvent[];
  let opened: Savepoint[];
  const damage: Damageable["damage"] = (target, how) => damageFiles(join(folder, "store"), target, how);
  beforeEach(async () => {
    folder = await makeFolder();
    [events, opened] = [[], []];
  });
  afterEach(async () => {
    for (const sp of opened) await sp.close();
    await removeFolder(folder);
  });
  return {
    async open(options: OpenOptions = {}) {
      const on = { damage: (event: DamageEvent) => void events.push(event) };
      const sp = await Savepoint.open(`file:${join(folder, "store")}`, { on, ...options });
      opened.push(sp);
      return sp;
    },
    damage,
    flip: (key) => damage({ kind: "record", key }, "flip"),
    get events() {
      return events;
    },
  };
}
