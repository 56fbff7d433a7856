import { dirname, join } from "node:path";
import { describe, it } from "vitest";
import { storeConformance } from "savepoint/testing";
import { WRITE_POINTS } from "../../src/store/file/write-points.js";
import { openFileStore, openStore } from "../../src/store.js";
import { damageFiles } from "./file-damage.js";
import { makeFolder, removeFolder } from "./temporary-folder.js";
import { runs } from "../support/runs.js";

describe("file: a folder", () => {
  storeConformance(
    {
      async setup() {
        const location = join(await makeFolder(), "store");
        const store = await openStore(`file:${location}`);
        return { store, location, teardown: () => removeFolder(dirname(location)) };
      },
      reopen: (location) => openFileStore(location),
      damage: async (location, target, how) => damageFiles(location, target, how),
      crash: { module: new URL("./file-crash.mjs", import.meta.url).href, points: WRITE_POINTS.slice(-2) },
    },
    { describe, it },
    { rounds: runs(6, 1) },
  );
});
