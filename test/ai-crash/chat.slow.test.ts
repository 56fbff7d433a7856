/** Servers of chats, killed at every part of a reply, in its tool, and in the writes of the store: takes minutes. */
import { describe, expect, it } from "vitest";
import { type ChatVariant, countPasses, killServers } from "./chat-matrix.js";

const variants = ([6, 7] as const).flatMap((sdk) =>
  (["same", "other"] as const).map((words): ChatVariant => ({ sdk, words })),
);

describe.each(variants)(
  "a chat server with AI SDK $sdk, whose model replies with the $words words when it is called again",
  (variant) => {
    it("killed at every part and in its tool: pages show one coherent reply", { timeout: 900_000 }, async () => {
      const passes = await countPasses(variant);
      const deaths = ["part", "tool"].flatMap((point) => deathsAt(point, passes.get(point) ?? 0));
      expect(deaths.length).toBe(19);
      expect(await killServers(variant, deaths)).toBe(deaths.length);
    });

    it("killed before and after every write: pages show one coherent reply", { timeout: 900_000 }, async () => {
      const passes = await countPasses(variant);
      const deaths = ["store commit", "store durable"].flatMap((point) => deathsAt(point, passes.get(point) ?? 0));
      expect(deaths.length).toBeGreaterThan(16);
      // How many writes there are depends on the time that they take, so the last ones may not be reached.
      expect(await killServers(variant, deaths)).toBeGreaterThan(deaths.length / 2);
    });
  },
);

function deathsAt(point: string, count: number): { point: string; passing: number }[] {
  return Array.from({ length: count }, (_, index) => ({ point, passing: index + 1 }));
}
