/** Reads what the store of a dead process has recorded. */
import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { isSavepointError, Savepoint } from "../../src/index.js";
import { encryptionOf } from "../support/crash-keys.mjs";
import type { Desk } from "./clerk.mjs";
import { storeUrl } from "./store-url.mjs";

/**
 * The effects whose results are recorded, as `session/branch/name`. Reads a copy, because opening a store cleans it up, and that is
 * left to the next process.
 */
export async function readRecorded(folder: string): Promise<Set<string>> {
  const url = storeUrl(folder);
  if (url.startsWith("postgres:")) {
    // What the dead process had sent last may still be on its way, and nothing tells when it has arrived: deliberately a time.
    await sleep(100);
    try {
      await using sp = await Savepoint.open(url, { create: false, durability: "process", ...encryptionOf() });
      return await recordedIn(sp);
    } catch (error) {
      // Killed before its first commit, which creates the encryption. A store with plain data would not open for the resumer either.
      if (isSavepointError(error, "NOT_ENCRYPTED")) return new Set();
      throw error;
    }
  }
  const copy = `${folder}-copy`;
  dropConnections();
  execFileSync("cp", ["-r", folder, copy]);
  rmSync(join(copy, "store.db-shm"), { force: true });
  try {
    await using sp = await Savepoint.open(storeUrl(copy), encryptionOf());
    return await recordedIn(sp);
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

async function recordedIn(sp: Savepoint): Promise<Set<string>> {
  const recorded = new Set<string>();
  for await (const { id } of sp.sessions.list()) {
    for (const { name: branch } of await sp.session(id).branches().all()) {
      for (const name of await recordedOn(sp, id, branch)) recorded.add(`${id}/${branch}/${name}`);
    }
  }
  return recorded;
}

/**
 * Ends connections that this process has closed, which on Node 20 lasts until they are collected. While one is there, SQLite
 * believes what a process left in shared memory, and not what it wrote to the log right before it was killed; the copy would
 * tell of a commit that the store itself takes back.
 */
function dropConnections(): void {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
}

async function recordedOn(sp: Savepoint, id: string, branch: string): Promise<string[]> {
  const latest = await sp.session<Desk>(id, { branch }).latest();
  const names = Object.keys(latest?.state.results ?? {});
  for await (const event of sp.watch(id, { branch })) {
    if (event.type === "effect" && event.phase === "end") names.push(event.callId ?? event.name);
    // This event is emitted last, after all recorded effects.
    if (event.type === "status") break;
  }
  return names;
}
