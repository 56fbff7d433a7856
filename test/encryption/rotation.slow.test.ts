/** `kill -9` while keys are changed and stores are encrypted, at every point of a write. */
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, inject, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { WRITE_POINTS as FILE_WRITE_POINTS } from "../../src/store/file/write-points.js";
import { POSTGRES_WRITE_POINTS } from "../../src/store/postgres/options.js";
import { WRITE_POINTS } from "../../src/store/sqlite/options.js";
import { type Ended, type Started, startProgram } from "../crash/children.js";
import { dropSchema, newPostgresUrl } from "../postgres/schemas.js";
import { encryptionOf } from "../support/crash-keys.mjs";
import { contentOf, fill } from "./lab.js";
import { onDisk } from "./on-disk.js";

const PROGRAM = fileURLToPath(new URL("./rotation-child.mjs", import.meta.url));
const start = (job: string, ...args: unknown[]): Started => startProgram(PROGRAM, job, ...args);

/** The acknowledged values of sessions. */
class Acknowledged {
  readonly values = new Map<string, number>();

  note({ lines, signal, stderr }: Ended): void {
    expect({ signal, stderr }).toEqual({ signal: "SIGKILL", stderr: "" });
    for (const { session, n } of lines) {
      if (typeof session === "string") this.values.set(session, Math.max(n as number, this.values.get(session) ?? 0));
    }
  }
}

const makeFolder = (): string => mkdtempSync(join(tmpdir(), "savepoint-rotation-"));

const STORES = [
  {
    kind: "SQLite",
    points: WRITE_POINTS,
    make: () => {
      const folder = makeFolder();
      return { url: `sqlite:${join(folder, "store.db")}`, remove: async () => rmSync(folder, { recursive: true }) };
    },
  },
  {
    kind: "plain files",
    points: FILE_WRITE_POINTS,
    make: () => {
      const folder = makeFolder();
      return { url: `file:${join(folder, "store")}`, remove: async () => rmSync(folder, { recursive: true }) };
    },
  },
  {
    kind: "PostgreSQL",
    points: POSTGRES_WRITE_POINTS,
    make: () => {
      expect(inject("postgresUrl")).not.toBe("");
      const url = newPostgresUrl();
      return { url, remove: () => dropSchema(url) };
    },
  },
];

describe.each(STORES)("changing the key of an encrypted store ($kind)", ({ points, make }) => {
  it("loses nothing, and leaves nothing to the old key", { timeout: 300_000 }, async () => {
    const { url, remove } = make();
    await (await Savepoint.open(url, { durability: "process", ...encryptionOf("old") })).close();
    const acknowledged = new Acknowledged();
    // Two that know only the old key or prefer it, and one that has the new one.
    const rings = ["old", "old,new", "new,old"];
    const writers = rings.map((ring, index) => start("save", url, ring, `lane ${index}`));
    await Promise.all(writers.map(({ started }) => started));
    let kills = 0;
    for (const point of points) {
      for (const passing of [0, 2]) {
        const { signal, stderr } = await start("rotate", url, "new,old", `${point}@${passing}`).ended;
        expect(stderr).toBe("");
        kills += Number(signal === "SIGKILL");
      }
    }
    // A rotation that has nothing left to do passes only some of the points.
    expect(kills).toBeGreaterThan(2);
    const { lines } = await start("rotate", url, "new,old").ended;
    expect(lines).toHaveLength(1);
    // Beside the old processes, one is started after the rotation with the old configuration.
    const late = start("save", url, "old,new", "late");
    await late.started;
    const refused = await Savepoint.open(url, { durability: "process", ...encryptionOf("old") }).then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(refused).toMatchObject({ code: "WRONG_KEY" });
    for (const { child, ended } of [...writers, late]) {
      child.kill("SIGKILL");
      acknowledged.note(await ended);
    }
    expect(acknowledged.values.size).toBeGreaterThan(rings.length * 2);
    await using sp = await Savepoint.open(url, { durability: "process", ...encryptionOf("new") });
    // No data key is encrypted with the old key, although no rotation has run since the last save.
    expect((await sp.keys()).map(({ name }) => name)).toEqual(["new"]);
    for (const [session, n] of acknowledged.values) {
      const state = (await sp.session(session).latest())?.state as { n: number } | undefined;
      expect(state?.n ?? 0, session).toBeGreaterThanOrEqual(n);
    }
    const { ok, problems } = await sp.verify({ deep: true });
    expect({ ok, problems }).toEqual({ ok: true, problems: [] });
    await sp.close();
    await remove();
  });
});

describe.each(STORES.slice(0, 2))("encrypting a plain store ($kind)", ({ points, make }) => {
  it(
    "is completed after kill -9 at any point, loses nothing, and leaves no plain byte",
    { timeout: 300_000 },
    async () => {
      const template = make();
      const plain = await Savepoint.open(template.url, { durability: "process" });
      await fill(plain);
      const content = await contentOf(plain);
      await plain.search("canary");
      await plain.close();
      const folderOf = (url: string): string => join(url.slice(url.indexOf(":") + 1), "..");
      let kills = 0;
      for (const point of points) {
        for (const passing of [0, 11]) {
          const { url, remove } = make();
          const folder = folderOf(url);
          cpSync(folderOf(template.url), folder, { recursive: true });
          const { signal, stderr } = await start("encrypt", url, "new", `${point}@${passing}`).ended;
          expect(stderr).toBe("");
          if (signal === "SIGKILL") {
            kills++;
            // Killed again while it is completed.
            await start("rotate", url, "new", `${point}@1`).ended;
          }
          const opened = await Savepoint.open(url, { durability: "process" }).then(
            async (sp) => {
              // The header was not written yet.
              expect(await contentOf(sp)).toEqual(content);
              await sp.rekey({ to: encryptionOf("new").encryption as never });
              return sp;
            },
            async (error: unknown) => {
              expect(error).toMatchObject({ code: "KEY_REQUIRED" });
              return Savepoint.open(url, { durability: "process", ...encryptionOf("new") });
            },
          );
          expect(onDisk(folder, "canary"), `${point}@${passing}`).toEqual([]);
          expect(await contentOf(opened)).toEqual(content);
          await opened.close();
          expect(onDisk(folder, "canary"), `${point}@${passing}, closed`).toEqual([]);
          await remove();
          if (signal !== "SIGKILL") break;
        }
      }
      expect(kills).toBeGreaterThan(points.length);
      await template.remove();
    },
  );
});
