/** Which stores a suite runs on. */
import { isFull } from "./runs.js";

/** What a suite above the store contract runs on in `npm test`: nothing there branches on the store. */
const DEFAULT_STORES: readonly string[] = ["memory:", "sqlite:", "sqlite: (a file)"];

/** `memory:` and a SQLite file; every store where `STORES=all` is set, as `npm run test:all` does. */
export function chooseStores<Kind extends { readonly name: string }>(kinds: readonly Kind[]): readonly Kind[] {
  return isFull ? kinds : kinds.filter(({ name }) => DEFAULT_STORES.includes(name));
}
