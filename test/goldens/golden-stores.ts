/** Where the golden stores are, and how each becomes a store that a test may change. */
import { cpSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { dropSchema, newPostgresUrl } from "../postgres/schemas.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { dumpSchema, loadSchema } from "./postgres-dump.js";
import { writeFile } from "node:fs/promises";

export const STORES_FOLDER = fileURLToPath(new URL("./stores/", import.meta.url));
export const BUNDLE = join(STORES_FOLDER, "bundle.savepoint");

export interface GoldenStore {
  readonly name: string;
  /** The URL of an empty store to be filled. */
  prepare(): Promise<Place>;
  /** The URL of a copy of the golden store. */
  copy(): Promise<Place>;
  /** Writes what is at the URL as the golden store. */
  write(url: string): Promise<void>;
}

export interface Place {
  readonly url: string;
  remove(): Promise<void>;
}

async function inFolder(scheme: string, name: string): Promise<Place & { readonly path: string }> {
  const folder = await makeFolder();
  const path = join(folder, name);
  return { path, url: `${scheme}:${path}`, remove: () => removeFolder(folder) };
}

export const GOLDEN_STORES: readonly GoldenStore[] = [
  {
    name: "sqlite:",
    prepare: () => inFolder("sqlite", "golden.db"),
    async copy() {
      const place = await inFolder("sqlite", "golden.db");
      cpSync(join(STORES_FOLDER, "golden.db"), place.path);
      return place;
    },
    async write(url) {
      const path = url.slice("sqlite:".length);
      // What is in the log goes into the file, so that it is one.
      const database = await openDatabase(path);
      database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
      database.close();
      cpSync(path, join(STORES_FOLDER, "golden.db"));
    },
  },
  {
    name: "file:",
    prepare: () => inFolder("file", "golden"),
    async copy() {
      const place = await inFolder("file", "golden");
      cpSync(join(STORES_FOLDER, "golden"), place.path, { recursive: true });
      return place;
    },
    async write(url) {
      const folder = join(STORES_FOLDER, "golden");
      rmSync(folder, { recursive: true, force: true });
      cpSync(url.slice("file:".length), folder, { recursive: true });
    },
  },
  {
    name: "postgres:",
    prepare: async () => newSchema(),
    async copy() {
      const place = newSchema();
      await loadSchema(place.url, readFileSync(join(STORES_FOLDER, "golden.sql"), "utf8"));
      return place;
    },
    write: async (url) => writeFile(join(STORES_FOLDER, "golden.sql"), await dumpSchema(url)),
  },
];

function newSchema(): Place {
  const url = newPostgresUrl();
  return { url, remove: () => dropSchema(url) };
}
