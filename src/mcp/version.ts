/** The version of the package. The build replaces this module by one that contains it. */
import { readFileSync } from "node:fs";

export function version(): string {
  const manifest = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return (JSON.parse(manifest) as { version: string }).version;
}
