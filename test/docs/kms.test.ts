// The recipe for a key management service in docs/security.md, run with a service that answers as AWS KMS does.
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** A service in the process, with its key in a file. It decrypts only for the key and the context that it has encrypted for. */
const SERVICE = `
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";

if (!existsSync("service.key")) writeFileSync("service.key", randomBytes(32));
const key = readFileSync("service.key");
const contextOf = ({ KeyId, EncryptionContext }) => Buffer.from(JSON.stringify([KeyId, EncryptionContext]));

export class EncryptCommand {
  constructor(input) {
    this.answer = () => {
      const nonce = randomBytes(12);
      const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(contextOf(input));
      const content = Buffer.concat([cipher.update(input.Plaintext), cipher.final()]);
      return { CiphertextBlob: new Uint8Array(Buffer.concat([nonce, cipher.getAuthTag(), content])) };
    };
  }
}

export class DecryptCommand {
  constructor(input) {
    this.answer = () => {
      const sealed = Buffer.from(input.CiphertextBlob);
      const decipher = createDecipheriv("aes-256-gcm", key, sealed.subarray(0, 12)).setAAD(contextOf(input));
      decipher.setAuthTag(sealed.subarray(12, 28));
      return { Plaintext: new Uint8Array(Buffer.concat([decipher.update(sealed.subarray(28)), decipher.final()])) };
    };
  }
}

export class KMSClient {
  async send(command) {
    appendFileSync("calls.log", command.constructor.name + "\\n");
    return command.answer();
  }
}
`;

/** What the program does after it has opened the store. */
const WORK = `
const session = sp.session("order-88");
console.log((await session.latest())?.state.card ?? "nothing");
await session.save({ card: "canary-4111" });
await sp.backup({ to: "./backups" });
await sp.close();
`;

let folder: string;
beforeAll(async () => {
  folder = await makeFolder();
  const service = join(folder, "node_modules", "@aws-sdk", "client-kms");
  mkdirSync(service, { recursive: true });
  symlinkSync(root, join(folder, "node_modules", "savepoint"));
  writeFileSync(join(service, "package.json"), '{ "type": "module", "exports": "./index.js" }');
  writeFileSync(join(service, "index.js"), SERVICE);
});
afterAll(() => removeFolder(folder));

it("the recipe for a key management service calls it once for each process, and stores only the wrapped key", () => {
  const page = readFileSync(join(root, "docs", "security.md"), "utf8");
  const recipe = /^```js file=kms\.mjs\n([^]*?)^```/m.exec(page)?.[1];
  if (recipe === undefined) throw new Error("docs/security.md has no kms.mjs.");
  writeFileSync(join(folder, "kms.mjs"), `${recipe}${WORK}`);
  const run = (): string => {
    const { stdout, stderr } = spawnSync(process.execPath, ["kms.mjs"], { cwd: folder, encoding: "utf8" });
    return `${stdout}${stderr}`.trim();
  };
  expect([run(), run()]).toEqual(["nothing", "canary-4111"]);
  expect(readFileSync(join(folder, "calls.log"), "utf8")).toBe("EncryptCommand\nDecryptCommand\n");
  const files = [folder, join(folder, "backups")].flatMap((path) =>
    readdirSync(path, { withFileTypes: true }).flatMap((file) => (file.isFile() ? [join(path, file.name)] : [])),
  );
  const withCanary = files.filter((path) => readFileSync(path).includes("canary"));
  expect(withCanary).toEqual([join(folder, "kms.mjs")]);
});
