/** JSON that is handed over in a file, or on stdin. */
import { readFile } from "node:fs/promises";
import type { Cli } from "./cli.js";
import { usageError } from "./errors.js";

async function readStdin({ io }: Cli): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of io.stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}

export async function readJson(cli: Cli, path: string): Promise<unknown> {
  const from = path === "-" ? "stdin" : path;
  let content: string;
  try {
    content = path === "-" ? await readStdin(cli) : await readFile(cli.resolvePath(path), "utf8");
  } catch (error) {
    throw usageError(`${from} cannot be read: ${(error as Error).message}`, error);
  }
  try {
    return JSON.parse(content) as unknown;
  } catch (error) {
    throw usageError(`What ${from} has is no JSON: ${(error as Error).message}`, error);
  }
}
