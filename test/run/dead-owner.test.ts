/** Runs of a process that was found dead when the store was opened. */
import { join } from "node:path";
import { expect } from "vitest";
import { Savepoint } from "../../src/index.js";
import { openStore } from "../../src/store.js";
import { crashRun, createSurvivor } from "../support/crashed-run.js";
import { requireOrSkip } from "../support/requires.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

const options = { durability: "process", on: { uncleanShutdown: () => {} } } as const;

const itOnLinux = requireOrSkip(process.platform === "linux", "the death of a process can be proved on Linux only");

itOnLinux(
  "a run is resumed although the record of its dead owner was changed since the store was opened",
  async (context) => {
    const folder = await makeFolder();
    context.onTestFinished(() => removeFolder(folder));
    const url = `sqlite:${join(folder, "store.db")}`;
    await crashRun(url, 3);
    await using sp = await Savepoint.open(url, options);
    expect(sp.lastShutdown.interrupted).toEqual([{ sessionId: "s", branch: "main" }]);
    const store = await openStore(url);
    const [owner] = await store.list({ from: "h", to: "i" }, { limit: 1 });
    await store.commit({ deletes: [owner?.key ?? ""] });
    await store.close();
    expect(await sp.run(createSurvivor(), { session: "s" })).toMatchObject({ status: "completed", output: "reply 3" });
  },
);
