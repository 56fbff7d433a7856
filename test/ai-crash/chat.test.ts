// A few points; every point is in `chat.slow.test.ts`.
import { expect, it } from "vitest";
import { killServers } from "./chat-matrix.js";

it("a chat server that is killed while it streams: both pages show one coherent reply after another server has resumed it", async () => {
  const at = (passing: number): { point: string; passing: number } => ({ point: "part", passing });
  expect(await killServers({ sdk: 6, words: "other" }, [at(3)])).toBe(1);
  expect(await killServers({ sdk: 6, words: "same" }, [at(12)])).toBe(1);
});
