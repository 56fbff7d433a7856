import { readFileSync } from "node:fs";

/** The version of Savepoint. The bundler replaces this file: in the package it is a constant. */
export function version(): string {
  const manifest = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return (JSON.parse(manifest) as { version: string }).version;
}
