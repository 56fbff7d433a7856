/** Backups: each is complete, the newest are kept, and a failed one leaves the others alone. */
import { spawn } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, writeFileSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeEach, describe, expect, it } from "vitest";
import { type BackgroundFailureEvent, type Savepoint } from "../../src/index.js";
import { until } from "../run/lab.js";
import { fill, type Known, PLACES, readEverything, show, type State, useGround } from "./world.js";
import { requireOrSkip } from "../support/requires.js";
import { runs } from "../support/runs.js";

/** Root may write everywhere. */
const itAsUser = requireOrSkip(process.getuid?.() !== 0, "needs a user who is not root");

const child = fileURLToPath(new URL("./backup-child.mjs", import.meta.url));

describe.each(PLACES)("backups of $name", (place) => {
  const ground = useGround();
  let folder: string;
  let to: string;
  beforeEach(() => {
    folder = ground.folder();
    to = join(folder, "backups");
  });
  const open = (options = {}): Promise<Savepoint> => ground.open(place.url(folder), options);
  const names = (): string[] => readdirSync(to).sort();

  it("are kept up to the given number, and the oldest are removed first", async () => {
    let now = Date.now();
    const sp = await open({ now: () => (now += 1000) });
    const taken: string[] = [];
    for (let n = 1; n <= 6; n++) {
      await sp.session("s").save({ n });
      const { path, removed } = await sp.backup({ to, keep: 3 });
      taken.push(path);
      expect(removed).toEqual(taken.slice(0, -3).slice(-1));
      expect((await sp.backups.list(to)).map((each) => each.path)).toEqual(taken.slice(-3).reverse());
    }
    expect(names()).toHaveLength(3);
    for (const [index, path] of taken.slice(-3).entries()) {
      expect(await sp.verify({ bundle: path })).toMatchObject({ ok: true, checkpoints: index + 4 });
    }
  });

  it("are kept up to three by default, and one if that is given", async () => {
    const sp = await open();
    await sp.session("s").save(1);
    for (let n = 0; n < 5; n++) await sp.backup({ to });
    expect(names()).toHaveLength(3);
    const { path } = await sp.backup({ to, keep: 1 });
    expect((await sp.backups.list(to)).map((each) => each.path)).toEqual([path]);
  });

  it("that are taken within one millisecond have distinct names, and the one just taken stays", async () => {
    const sp = await open({ now: () => 1_700_000_000_000 });
    await sp.session("s").save(1);
    for (let n = 0; n < 5; n++) {
      const { path } = await sp.backup({ to, keep: 2 });
      expect((await sp.backups.list(to)).map((each) => each.path)).toContain(path);
    }
    expect(names()).toHaveLength(2);
  });

  it("leave all other files in the folder alone", async () => {
    mkdirSync(to);
    for (const name of ["notes.txt", "backup-old.tar", "other.savepoint"]) writeFileSync(join(to, name), "mine");
    const sp = await open();
    await sp.session("s").save(1);
    for (let n = 0; n < 3; n++) await sp.backup({ to, keep: 1 });
    expect(names()).toHaveLength(4);
    expect(await sp.backups.list(to)).toHaveLength(1);
    expect(await sp.backups.list(join(folder, "nowhere"))).toEqual([]);
  });

  it("contain everything, and can be imported into an empty store", async () => {
    const sp = await open();
    const known: Known = await fill(sp);
    const told: number[] = [];
    const result = await sp.backup({ to, onProgress: ({ bytes }) => void told.push(bytes) });
    const [listed] = await sp.backups.list(to);
    expect(listed).toMatchObject({ path: result.path, bytes: result.bytes });
    expect(result).toMatchObject({ holes: [], removed: [], checkpoints: 12 });
    expect(told.length).toBeGreaterThan(0);
    const other = await ground.open(place.url(ground.folder()));
    await other.import(result.path);
    const [here, there] = [await readEverything(sp, known), await readEverything(other, known)];
    for (const [name, part] of here) expect(show(there.get(name)), name).toBe(show(part));
  });

  it("that are taken while other processes save hold all earlier acknowledged saves, and nothing that cannot be loaded", async () => {
    const sp = await open();
    const writers = [await open(), await open()];
    let going = true;
    const acknowledged: { session: string; id: string }[] = [];
    const saving = writers.map(async (writer, index) => {
      for (let n = 0; going; n++) {
        const session = `w${index}-${n % 3}`;
        const { id } = await writer.session<State>(session).save({ messages: [`${n} `.repeat(300)] });
        acknowledged.push({ session, id });
      }
    });
    const results: { path: string; before: typeof acknowledged }[] = [];
    for (let n = 0; n < 3; n++) {
      const before = acknowledged.slice();
      results.push({ path: (await sp.backup({ to })).path, before });
    }
    going = false;
    await Promise.all(saving);
    for (const { path, before } of results) {
      const other = await ground.open(place.url(ground.folder()));
      await other.import(path);
      expect(await other.verify({ deep: true })).toMatchObject({ ok: true });
      for (const { session, id } of before) expect((await other.session(session).load(id))?.id).toBe(id);
      for (const { id, sessionId } of await other.checkpoints.list().all()) {
        expect(await other.session(sessionId as string).load(id)).toBeDefined();
      }
    }
  });

  it("that are killed leave the older ones, and no incomplete file that counts as a backup", async () => {
    const sp = await open();
    for (let n = 0; n < 20; n++) await sp.session<State>("s").save({ messages: [`${n} `.repeat(5_000)] });
    for (let n = 0; n < 3; n++) await sp.backup({ to });
    for (let tries = 0; tries < runs(4, 2); tries++) {
      const { pid } = await new Promise<{ pid: number }>((resolve) => {
        const process_ = spawn(process.execPath, [child, place.url(folder), to], {
          stdio: ["ignore", "pipe", "ignore"],
        });
        process_.stdout.once("data", () => resolve({ pid: process_.pid as number }));
      });
      await until(() => readdirSync(to).some((name) => name.endsWith(".tmp")), "the backup to begin");
      process.kill(pid, "SIGKILL");
      const there = await sp.backups.list(to);
      expect(there.length).toBeGreaterThanOrEqual(3);
      for (const { path } of there)
        expect(await sp.verify({ bundle: path })).toMatchObject({ ok: true, checkpoints: 20 });
    }
    await sp.backup({ to });
    expect(await sp.backups.list(to)).toHaveLength(3);
  });

  it("remove the leftovers of a killed backup", async () => {
    const sp = await open();
    await sp.session("s").save(1);
    const { path } = await sp.backup({ to });
    const left = join(to, "backup-2020-01-01T00-00-00-000Z-01234567.savepoint.tmp");
    writeFileSync(left, "half");
    utimesSync(left, 1_577_836_800, 1_577_836_800);
    for (let n = 0; n < 4; n++) await sp.backup({ to });
    expect(path).toBeDefined();
    expect(names().filter((name) => name.endsWith(".tmp"))).toEqual([]);
  });

  it("of a damaged store report what they lack", async () => {
    const sp = await open();
    const { sessions } = await fill(sp);
    await sp.close();
    expect(sessions).toHaveLength(3);
    await place.damage(folder, { kind: "item", tape: "1510", item: 0 }, "flip");
    const again = await open();
    const { holes } = await again.backup({ to });
    expect(holes[0]).toMatchObject({ place: expect.stringContaining("session t"), reason: expect.any(String) });
  });

  it("of a damaged store never replace the last intact one", async () => {
    const sp = await open();
    await fill(sp);
    const { path } = await sp.backup({ to, keep: 3 });
    await sp.close();
    await place.damage(folder, { kind: "item", tape: "1510", item: 0 }, "flip");
    const again = await open();
    for (let n = 0; n < 3; n++) await again.backup({ to, keep: 3 });
    expect((await again.backups.list(to)).map((each) => each.path)).toContain(path);
  });

  it("into a path that is not a folder fail", async () => {
    const sp = await open();
    await sp.session("s").save(1);
    writeFileSync(to, "a file");
    await expect(sp.backup({ to })).rejects.toMatchObject({ code: "IO_FAILED" });
    await expect(sp.backup({ to: join(to, "below") })).rejects.toMatchObject({ code: "IO_FAILED" });
  });

  itAsUser("a backup into a folder that cannot be written fails, and removes nothing", async () => {
    const sp = await open();
    await sp.session("s").save(1);
    const locked = join(folder, "locked");
    await sp.backup({ to: locked });
    chmodSync(locked, 0o500);
    await expect(sp.backup({ to: locked, keep: 1 })).rejects.toMatchObject({ code: "IO_FAILED" });
    chmodSync(locked, 0o700);
    expect(await sp.backups.list(locked)).toHaveLength(1);
  });

  it("automatic backups are taken until they are stopped, or their Savepoint is closed", async () => {
    const sp = await open();
    await sp.session("s").save(1);
    sp.backups.start({ to, every: "1s", keep: 2 });
    await until(async () => (await sp.backups.list(to)).length >= 1, "a backup");
    sp.backups.start({ to: join(folder, "elsewhere"), every: 1000 });
    await until(async () => (await sp.backups.list(join(folder, "elsewhere"))).length >= 1, "a backup elsewhere");
    await sp.backups.stop();
    await sp.backups.stop();
    sp.backups.start({ to, every: "1s" });
    await sp.close();
    const [one, ...more] = names();
    expect(one).toMatch(/^backup-.*\.savepoint$/);
    expect(more.every((name) => name.endsWith(".savepoint"))).toBe(true);
  });

  it("automatic backups that fail report it", async () => {
    writeFileSync(to, "a file");
    const told: BackgroundFailureEvent[] = [];
    const sp = await open({ on: { backgroundFailure: (event: BackgroundFailureEvent) => void told.push(event) } });
    sp.backups.start({ to, every: "1s" });
    await until(() => told.length > 0, "the failure");
    expect(told[0]).toMatchObject({ message: expect.stringContaining("backup"), error: { code: "IO_FAILED" } });
  });

  it("reject invalid arguments", async () => {
    const sp = await open();
    const wrong = [{}, { to: "" }, { to: 1 }, { to, keep: 0 }, { to, keep: 1.5 }, { to, keep: -1 }, { to, kep: 3 }];
    for (const options of wrong) {
      const code = "INVALID_ARGUMENT";
      await expect(sp.backup(options as never), JSON.stringify(options)).rejects.toMatchObject({ code });
      expect(() => sp.backups.start({ every: "1h", ...options } as never)).toThrow(expect.objectContaining({ code }));
    }
    for (const every of [0, 999, -1, Number.NaN, "soon", 2 ** 31, undefined]) {
      expect(() => sp.backups.start({ to, every } as never)).toThrow(
        expect.objectContaining({ code: "INVALID_ARGUMENT" }),
      );
    }
    await sp.close();
    await expect(sp.backup({ to })).rejects.toMatchObject({ code: "CLOSED" });
  });

  it("with changed bytes leave nothing behind that is later mistaken for intact data", async () => {
    const sp = await open();
    const state = { bytes: new Uint8Array(3_000).fill(9) };
    const { id } = await sp.session("s").save(state);
    const bytes = await sp.export({ session: "s" }).bytes();
    const at = Buffer.from(bytes).indexOf("CQkJCQkJ") + 400;
    const other = await ground.open("memory:");
    const changed = Uint8Array.from(bytes, (byte, index) => (index === at ? byte ^ 1 : byte));
    await expect(other.import(changed)).rejects.toMatchObject({ code: "DAMAGED" });
    await other.import(bytes);
    expect((await other.session("s").load(id))?.state).toStrictEqual(state);
  });
});
