/** Damages what a store of files has stored. The file stays as long as it was: others have it open. */
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Damage, DamageTarget } from "savepoint/testing";
import { parseLine, splitLines } from "../../src/store/file/lines.js";

export function damageFiles(folder: string, target: DamageTarget, how: Damage): void {
  if (target.kind === "blob") {
    const plain = join(folder, "blobs", target.hash.slice(0, 2), target.hash);
    // It is packed where that pays.
    const path = existsSync(plain) ? plain : `${plain}.gz`;
    if (how === "remove") rmSync(path);
    else writeFileSync(path, damaged(readFileSync(path), how));
    return;
  }
  const { path, offset, length } = findLine(folder, target);
  const bytes = readFileSync(path);
  const line = bytes.subarray(offset, offset + length);
  damaged(Buffer.from(line), how).copy(line.fill(" "));
  writeFileSync(path, bytes);
}

/** The line that counts: that of the latest commit. */
function findLine(folder: string, target: DamageTarget): { path: string; offset: number; length: number } {
  let best: { path: string; offset: number; length: number; at: number } | undefined;
  for (const path of files(folder)) {
    for (const { offset, bytes } of splitLines(readFileSync(path), 0)) {
      const fields = parseLine(bytes)?.fields;
      const at = Number(fields?.["at"]);
      if (fields && isTarget(fields, target) && at > (best?.at ?? -1))
        best = { path, offset, length: bytes.length, at };
    }
  }
  if (!best) throw new Error(`There is no line of ${JSON.stringify(target)}.`);
  return best;
}

function isTarget(fields: Readonly<Record<string, unknown>>, target: DamageTarget): boolean {
  if (target.kind === "record") return fields["put"] === target.key;
  return "tape" in target && fields["tape"] === target.tape && fields["item"] === target.item;
}

function files(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".jsonl") && !name.startsWith("commits"))
    .map((name) => join(folder, name));
}

function damaged(bytes: Buffer, how: Damage): Buffer {
  if (how === "remove") return Buffer.alloc(0);
  if (how === "truncate") return bytes.subarray(0, bytes.length >> 1);
  const middle = bytes.length >> 1;
  bytes[middle] = (bytes[middle] as number) ^ 1;
  return bytes;
}
