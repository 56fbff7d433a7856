// Encrypted stores on the command line: SAVEPOINT_KEY_FILE, keygen and rekey.
import { chmodSync, readdirSync, readFileSync, statSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { readKeyFile } from "../../src/index.js";
import { onDisk } from "../encryption/stored-bytes.js";
import { run } from "./command.js";
import { saveTrip, usePlace } from "./place.js";

const SECRET = "canary-4111";
const tool = usePlace();

/** Runs a command in the folder of the test, with the keys in `keys`. */
function withKeys(...args: string[]) {
  const env = { SAVEPOINT_URL: tool().url, SAVEPOINT_KEY_FILE: "keys" };
  return run(args, { cwd: tool().folder, env });
}

async function createEncryptedStore(): Promise<void> {
  expect((await withKeys("keygen", "keys", "--name", "first")).code).toBe(0);
  const sp = await tool().open(tool().url, { encryption: await readKeyFile(tool().path("keys")) });
  await sp.session("order").save({ secret: SECRET });
  await sp.close();
}

const isOnDisk = (): boolean => onDisk(tool().folder, SECRET).length > 0;

describe("key files", () => {
  it("keygen creates a file that only its user can read, and a new key becomes the first", async () => {
    expect((await withKeys("keygen", "keys", "--name", "first")).stderr).toContain("export SAVEPOINT_KEY_FILE=");
    expect((await withKeys("keygen", "keys", "--name", "second")).stdout).toContain("the current one now");
    expect(statSync(tool().path("keys")).mode & 0o777).toBe(0o600);
    const { current, keys } = await readKeyFile(tool().path("keys"));
    expect({ current, names: Object.keys(keys) }).toEqual({ current: "second", names: ["second", "first"] });
    expect(readdirSync(tool().folder)).toEqual(["keys"]);
    const again = await withKeys("keygen", "keys", "--name", "first");
    expect(again.code).toBe(2);
    expect(again.stderr).toContain("has a key with the name");
  });

  it("keygen without a file prints a line of a key file", async () => {
    const { stdout } = await withKeys("keygen", "--name", "one");
    tool().file("keys", stdout);
    chmodSync(tool().path("keys"), 0o600);
    expect((await readKeyFile(tool().path("keys"))).current).toBe("one");
  });

  it("a key file that other users can read is rejected", async () => {
    await createEncryptedStore();
    for (const mode of [0o640, 0o604, 0o620]) {
      chmodSync(tool().path("keys"), mode);
      const ended = await withKeys("show", "order");
      expect({ code: ended.code, stdout: ended.stdout }).toEqual({ code: 10, stdout: "" });
      expect(ended.stderr).toContain("chmod 600");
    }
  });

  it.each(["", "# nothing\n", "one\n", "one AAAA\n", "one !\n", "one two three\n", `a ${"A".repeat(43)}=\n`.repeat(2)])(
    "a key file with the content %j is rejected, and its content is not printed",
    async (content) => {
      chmodSync(tool().file("keys", content), 0o600);
      const ended = await withKeys("keygen", "keys", "--name", "new");
      expect(ended.code).toBe(2);
      expect(ended.stderr).toMatch(/cannot be used: (line \d|it contains no key)/);
      expect(ended.stderr).not.toContain("AAAA");
      expect(readFileSync(tool().path("keys"), "utf8")).toBe(content);
    },
  );
});

describe("an encrypted store on the command line", () => {
  it("is read only with the keys in SAVEPOINT_KEY_FILE", async () => {
    await createEncryptedStore();
    expect((await withKeys("show", "order")).stdout).toContain(SECRET);
    const ended = await tool().on(["show", "order"]);
    expect({ code: ended.code, stdout: ended.stdout }).toEqual({ code: 10, stdout: "" });
    expect(ended.stderr).toContain("SAVEPOINT_KEY_FILE");
    expect(isOnDisk()).toBe(false);
  });

  it("rekey changes its key, and verify shows that the old one is not needed any more", async () => {
    await createEncryptedStore();
    await withKeys("keygen", "keys", "--name", "second");
    expect((await withKeys("verify")).stdout).toMatch(/^Key first .*the current key/m);
    const ended = await withKeys("rekey");
    expect({ code: ended.code, stderr: ended.stderr }).toEqual({ code: 0, stderr: "" });
    expect(ended.stdout).toMatch(/current key: \d+ data keys of \d+ changed/);
    const { stdout } = await withKeys("verify");
    expect(stdout).toMatch(/^Key second .*the current key/m);
    expect(stdout).not.toMatch(/still needed/);
    // Only the new key is left.
    tool().file("keys", readFileSync(tool().path("keys"), "utf8").split("\n")[0] ?? "");
    expect((await withKeys("show", "order")).stdout).toContain(SECRET);
  });

  it("rekey --encrypt encrypts a plain store after a confirmation", async () => {
    await tool().leave(async (sp) => {
      await saveTrip(sp);
      await sp.session("order").save({ secret: SECRET });
    });
    await withKeys("keygen", "keys");
    const plain = await withKeys("show", "order");
    expect(plain.code).toBe(10);
    expect(plain.stderr).toContain("savepoint rekey");
    expect((await withKeys("rekey", "--encrypt")).code).toBe(2);
    expect(isOnDisk()).toBe(true);
    expect((await withKeys("rekey", "--encrypt", "--yes")).code).toBe(0);
    expect(isOnDisk()).toBe(false);
    expect((await withKeys("show", "order")).stdout).toContain(SECRET);
    expect((await withKeys("rekey", "--encrypt", "--yes")).code).toBe(10);
  });

  it("rekey without SAVEPOINT_KEY_FILE prints how to create a key", async () => {
    expect((await tool().fail(["rekey"], 2)).message).toContain("savepoint keygen");
  });
});

describe("bundles of an encrypted store on the command line", () => {
  const onOther = (url: string, keys: string | undefined, ...args: string[]) =>
    run(args, { cwd: tool().folder, env: { SAVEPOINT_URL: url, ...(keys && { SAVEPOINT_KEY_FILE: keys }) } });

  it("are encrypted, and imported into a store with another key with --key-file", async () => {
    await createEncryptedStore();
    expect((await withKeys("export", "-o", "all.savepoint")).code).toBe(0);
    await withKeys("keygen", "other", "--name", "other");
    const other = `file:${tool().path("other-store")}`;
    const wrong = await onOther(other, "other", "import", "all.savepoint");
    expect({ code: wrong.code, stdout: wrong.stdout }).toEqual({ code: 10, stdout: "" });
    expect(wrong.stderr).toContain("--key-file");
    const ended = await onOther(other, "other", "import", "all.savepoint", "--key-file", "keys");
    expect({ code: ended.code, stdout: ended.stdout }).toMatchObject({ code: 0 });
    expect((await onOther(other, "other", "show", "order")).stdout).toContain(SECRET);
    expect(isOnDisk()).toBe(false);
    const plain = `sqlite:${tool().path("plain.db")}`;
    expect((await onOther(plain, undefined, "import", "all.savepoint")).code).toBe(10);
    expect((await onOther(plain, undefined, "import", "all.savepoint", "--key-file", "keys")).code).toBe(0);
    expect((await onOther(plain, undefined, "export", "-o", "plain.savepoint")).code).toBe(0);
    expect((await withKeys("import", "plain.savepoint", "--key-file", "keys")).code).toBe(10);
    expect((await withKeys("import", "plain.savepoint")).stdout).toContain("Imported 0 sessions");
  });

  it("are written by backup, and read by verify and repair; migrate copies to another encrypted store", async () => {
    await createEncryptedStore();
    const backup = await withKeys("backup", "--to", "backups", "--json");
    const { path } = JSON.parse(backup.stdout) as { path: string };
    expect((await withKeys("verify", "--bundle", path)).stdout).toContain("No damage found in 1 session");
    const withoutKeys = await tool().on(["verify", "--bundle", path]);
    expect({ code: withoutKeys.code, stdout: withoutKeys.stdout }).toEqual({ code: 10, stdout: "" });
    expect((await withKeys("repair", "--from", "backups")).stdout).toContain("No damage found");
    const copy = `file:${tool().path("copy")}`;
    expect((await withKeys("migrate", "--to", copy)).code).toBe(0);
    expect((await onOther(copy, "keys", "show", "order")).stdout).toContain(SECRET);
    expect(isOnDisk()).toBe(false);
  });
});
