// A few points; every point is in `chat.slow.test.ts`.
import { expect, it } from "vitest";
import { killServers } from "./chat-matrix.js";

it("a chat server that is killed while it streams: both pages show one coherent reply after another server has resumed it", async () => {
  const deaths = [3, 12].map((passing) => ({ point: "part", passing }));
  expect(await killServers({ sdk: 6, words: "other" }, deaths)).toBe(2);
});
