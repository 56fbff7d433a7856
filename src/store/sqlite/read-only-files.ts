/**
 * Opens the files of a database without changing them, not even by locks in `-shm` or by an empty `-wal`.
 *
 * | files | how they are opened |
 * |---|---|
 * | no `-wal`, or an empty one | as immutable: SQLite looks for no other files and locks nothing |
 * | `-wal` and `-shm` | read-only, with a read-only `-shm`. If no process has it open, SQLite builds its index of the WAL in memory |
 * | `-wal` alone | a copy in a private temporary folder, because SQLite would create `-shm` |
 *
 * SQLite does not notice changes of a file that is opened as immutable, and ignores a WAL that another process creates for it. So
 * the files are compared before and after every read: see {@link ReadOnlyFiles.isCurrent}.
 */
import { type BigIntStats, constants, copyFileSync, lstatSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { storeNotFound } from "../shared/index.js";
import type { DatabaseClass, SqliteDatabase } from "./driver.js";
import { filesChanging } from "./errors.js";

/** How often opening, or a read, is repeated because other processes opened, changed and closed the database meanwhile. */
const MAX_ATTEMPTS = 20;

/** The state of the files: which of them are there, and what must not change while they are open. */
interface FileState {
  readonly kind: "immutable" | "shared" | "copied";
  readonly mark: string;
}

export class ReadOnlyFiles {
  readonly #Database: DatabaseClass;
  readonly #path: string;
  readonly #url: string;
  /** All databases, because one driver crashes if a database is collected before its statements. */
  readonly #databases: SqliteDatabase[] = [];
  #opened: FileState | undefined;
  #copy: string | undefined;

  readonly #check: (database: SqliteDatabase) => void;

  /**
   * @param path the database, without symbolic links
   * @param check throws if a database that was just opened is not a store of this version
   */
  constructor(Database: DatabaseClass, path: string, url: string, check: (database: SqliteDatabase) => void) {
    this.#check = check;
    this.#Database = Database;
    this.#path = path;
    this.#url = url;
  }

  /** Opens the files as they are now. */
  open(): SqliteDatabase {
    this.#opened = undefined;
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
      const state = this.#observe();
      let database: SqliteDatabase | undefined;
      try {
        database = this.#open(state.kind);
        this.#databases.push(database);
        // Until the first read, the files are not open. `query_only` is a second barrier: the copy could be written.
        database.exec("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA query_only = ON");
        database.prepare("SELECT count(*) FROM sqlite_schema").get();
        this.#check(database);
        if (this.#observe().mark === state.mark) {
          this.#opened = state;
          return database;
        }
      } catch (error) {
        if (this.#observe().mark === state.mark) {
          database?.close();
          throw error;
        }
      }
      database?.close();
    }
    throw filesChanging(this.#url);
  }

  /** Whether the files are still in the state in which they were opened. Costs three `stat` calls. */
  isCurrent(): boolean {
    return this.#observe().mark === this.#opened?.mark;
  }

  /** Runs a synchronous read on the files as they are now. Opens them again, and repeats the read, if they have changed. */
  readCurrent<T>(read: () => T, reopen: () => void): T {
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
      if (!this.isCurrent()) reopen();
      try {
        const result = read();
        if (this.isCurrent()) return result;
      } catch (error) {
        if (this.isCurrent()) throw error;
      }
    }
    throw filesChanging(this.#url);
  }

  /** Removes the copy, if there is one. Call it after the database was closed. */
  close(): void {
    if (this.#copy !== undefined) rmSync(this.#copy, { recursive: true, force: true });
    this.#copy = undefined;
  }

  #open(kind: FileState["kind"]): SqliteDatabase {
    this.close();
    if (kind === "copied") return new this.#Database(this.#copyFiles(), { readOnly: true });
    const url = pathToFileURL(this.#path);
    url.search = kind === "immutable" ? "mode=ro&immutable=1" : "mode=ro&readonly_shm=1";
    return new this.#Database(url, { readOnly: true });
  }

  /** Copies database and WAL. Without `-shm` no connection is open, so closing the files drops no locks. */
  #copyFiles(): string {
    this.#copy = mkdtempSync(join(tmpdir(), "savepoint-read-"));
    const path = join(this.#copy, "store.db");
    for (const suffix of ["", "-wal"]) copyFileSync(this.#path + suffix, path + suffix, constants.COPYFILE_FICLONE);
    return path;
  }

  #observe(): FileState {
    const [main, wal, shm] = ["", "-wal", "-shm"].map((suffix) =>
      lstatSync(this.#path + suffix, { bigint: true, throwIfNoEntry: false }),
    );
    if (!main) throw storeNotFound(this.#url);
    if (!wal?.isFile() || wal.size === 0n) return { kind: "immutable", mark: versionOf(main) };
    // SQLite itself notices what other processes write to these files.
    if (shm?.isFile()) return { kind: "shared", mark: [main, wal, shm].map(identityOf).join(" ") };
    return { kind: "copied", mark: `${versionOf(main)} ${versionOf(wal)}` };
  }
}

function identityOf({ dev, ino }: BigIntStats): string {
  return `${dev}:${ino}`;
}

function versionOf(stats: BigIntStats): string {
  return `${identityOf(stats)}:${stats.size}:${stats.mtimeNs}`;
}
