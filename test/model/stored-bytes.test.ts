import { stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { message } from "./sample-states.js";

it("storedBytes of all saves add up to about the size of the file", async () => {
  const folder = await makeFolder();
  const file = join(folder, "store.db");
  const sp = await Savepoint.open(`sqlite:${file}`, { durability: "process", compress: false });
  const session = sp.session<{ messages: unknown[]; file: string }>("s");
  const state = { messages: [] as unknown[], file: "x".repeat(20_000) };
  let stored = 0;
  for (let n = 0; n < 600; n++) {
    state.messages.push({ ...message(n), text: `${n} `.repeat(100) });
    state.file = `${state.file.slice(0, 30 * n)}${n} is edited ${state.file.slice(30 * n + 20)}`;
    stored += (await session.save(state)).storedBytes;
  }
  await sp.close();
  const { size } = await stat(file);
  expect(size / stored).toBeGreaterThan(0.9);
  expect(size / stored).toBeLessThan(1.15);
  await removeFolder(folder);
});
