/** JSON that is handed over in a file, or on stdin. */
import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { usage } from "./failure.js";

export async function readJson(path: string): Promise<unknown> {
  const from = path === "-" ? "stdin" : path;
  let content: string;
  try {
    content = path === "-" ? await text(process.stdin) : await readFile(path, "utf8");
  } catch (error) {
    throw usage(`${from} cannot be read: ${(error as Error).message}`, error);
  }
  try {
    return JSON.parse(content) as unknown;
  } catch (error) {
    throw usage(`What ${from} has is no JSON: ${(error as Error).message}`, error);
  }
}
