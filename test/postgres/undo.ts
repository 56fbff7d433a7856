import { afterEach } from "vitest";
import { dropSchema, newPostgresUrl } from "./schemas.js";

/** What the tests of a file undo after each of them, the last first; and URLs of new stores, which are undone so. */
export function useUndo(): { readonly undo: (() => Promise<unknown>)[]; readonly newUrl: () => string } {
  const undo: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const each of undo.splice(0).reverse()) await each();
  });
  return {
    undo,
    newUrl() {
      const url = newPostgresUrl();
      undo.push(() => dropSchema(url));
      return url;
    },
  };
}
