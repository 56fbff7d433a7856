// The view of an encrypted store in a process that is killed. It uses the build, because that is what Node runs.
import { byPlainNames } from "./plain-names.mjs";

const { encryptStore, openDataKeys, parseKeyRing } = await import(
  new URL("../../dist/internals.js", import.meta.url).href
);

/** @param {import("savepoint/store").Store} store */
export async function encryptForCrash(store) {
  const ring = parseKeyRing({ key: new Uint8Array(32).fill(7) });
  return byPlainNames(encryptStore(store, await openDataKeys(store, ring, true)), new Map());
}
