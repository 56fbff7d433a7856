/** JSON that the command line prints, and JSON that it reads from files and stdin. */
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { type Json, toJson } from "../index.js";
import { usageError } from "./errors.js";
import type { CliIo } from "./io.js";

/** A value as JSON. Fields that are `undefined` are omitted; values that JSON cannot represent get a tagged form. */
export function toPrintableJson(value: unknown): Json {
  return toJson(value, { omitUndefined: true });
}

/** The lines of a JSON document with indentation. No line break of a string is among them: JSON escapes those. */
export function formatJson(json: Json): string[] {
  return JSON.stringify(json, undefined, 2).split("\n");
}

/** Reads a JSON file; `-` is stdin. */
export async function readJson(io: CliIo, path: string): Promise<unknown> {
  const source = path === "-" ? "stdin" : path;
  let content: string;
  try {
    content = path === "-" ? await readStdin(io) : await readFile(resolve(io.cwd, path), "utf8");
  } catch (error) {
    throw usageError(`${source} cannot be read: ${(error as Error).message}`, error);
  }
  try {
    return JSON.parse(content) as unknown;
  } catch (error) {
    throw usageError(`${source} is not valid JSON: ${(error as Error).message}`, error);
  }
}

async function readStdin({ stdin }: CliIo): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}
