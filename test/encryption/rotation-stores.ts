/** The stores of the tests that kill processes while keys are changed, and the write points of each store. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, inject } from "vitest";
import { WRITE_POINTS as FILE_WRITE_POINTS } from "../../src/store/file/write-points.js";
import { POSTGRES_WRITE_POINTS } from "../../src/store/postgres/options.js";
import { WRITE_POINTS } from "../../src/store/sqlite/options.js";
import type { Ended } from "../crash/children.js";
import { dropSchema, newPostgresUrl } from "../postgres/schemas.js";
import { onDisk, rowsOf } from "./stored-bytes.js";

export interface RotationStore {
  readonly kind: string;
  readonly points: readonly string[];
  /** The points that each commit of a rotation passes. */
  readonly commit: readonly string[];
  /** The points that a rotation also passes if the store has buffered commits of another process. */
  readonly buffer: readonly string[];
  /** The points that a rotation does not pass. */
  readonly others: readonly string[];
  readonly make: () => NewStore;
}

/** A store that does not exist yet. */
interface NewStore {
  readonly url: string;
  /** Whether the files or tables of the store contain a string. */
  readonly contains: (text: string) => Promise<boolean>;
  readonly remove: () => Promise<void>;
}

function makeInFolder(urlIn: (folder: string) => string): NewStore {
  const folder = mkdtempSync(join(tmpdir(), "savepoint-rotation-"));
  return {
    url: urlIn(folder),
    contains: async (text) => onDisk(folder, text).length > 0,
    remove: async () => rmSync(folder, { recursive: true }),
  };
}

export const STORES: readonly RotationStore[] = [
  {
    kind: "SQLite",
    points: WRITE_POINTS,
    commit: ["begin", "checked", "records", "items", "blobs", "commit", "committed", "durable"],
    buffer: ["flush:written"],
    others: ["buffer", "pack:begin", "pack:written", "pack:commit", "pack:committed"],
    make: () => makeInFolder((folder) => `sqlite:${join(folder, "store.db")}`),
  },
  {
    kind: "plain files",
    points: FILE_WRITE_POINTS,
    commit: ["locked", "checked", "torn", "written", "synced", "logged"],
    buffer: [],
    others: ["replace:written", "replace:renamed", "compact:logged"],
    make: () => makeInFolder((folder) => `file:${join(folder, "store")}`),
  },
  {
    kind: "PostgreSQL",
    points: POSTGRES_WRITE_POINTS,
    commit: ["begin", "sent", "committed"],
    buffer: [],
    others: ["pack:begin", "pack:sent", "pack:committed"],
    make: () => {
      expect(inject("postgresUrl")).not.toBe("");
      const url = newPostgresUrl();
      return { url, contains: async (text) => (await rowsOf(url)).includes(text), remove: () => dropSchema(url) };
    },
  },
];

/** How often a process has passed each write point; `undefined` if it was killed at one of them. */
export function passingsOf({ lines, signal }: Ended): Map<string, number> | undefined {
  const passings = lines.find((line) => "passings" in line)?.["passings"];
  expect(signal).toBe(passings ? null : "SIGKILL");
  return passings ? new Map(Object.entries(passings as Record<string, number>)) : undefined;
}
