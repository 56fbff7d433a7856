/** JSON that the command line prints, and JSON that it reads from files and stdin. */
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { type Json, toJson } from "../index.js";
import { usageError } from "./errors.js";
import type { CliIo } from "./io.js";
import { escapeCharacter } from "./terminal-text.js";

/** The characters of `terminal-text.ts` that `JSON.stringify` does not escape. */
const CONTROL_CHARACTERS = /[\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** A value as JSON. Fields that are `undefined` are omitted; values that JSON cannot represent get a tagged form. */
export function toPrintableJson(value: unknown): Json {
  return toJson(value, { omitUndefined: true });
}

/** The lines of a JSON document with indentation. No line break of a string is among them: JSON escapes those. */
export function formatJson(json: Json): string[] {
  return stringify(json, 2).split("\n");
}

/**
 * A value as a JSON document that is safe on a terminal. `JSON.stringify` escapes only some of the characters that control
 * one; the others can occur only inside strings, where their escaped form has the same meaning.
 */
export function stringify(value: unknown, indent?: number): string {
  return JSON.stringify(value, undefined, indent).replace(CONTROL_CHARACTERS, escapeCharacter);
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
