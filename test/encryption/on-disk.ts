import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

/** The files below a folder that contain a text. */
export function onDisk(folder: string, text: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile() && readFileSync(path).includes(text));
}
