import { describe, expect, it } from "vitest";
import { PromptDigest } from "./prompt-digest.js";
import type { PromptMessage } from "./sdk.js";

const messages = (count: number): PromptMessage[] =>
  Array.from({ length: count }, (_, index) => ({
    role: index % 2 === 0 ? "assistant" : "tool",
    content: [{ type: "text", text: `message ${index}`, bytes: new Uint8Array([index]) }],
  })) as never;

const fresh = (list: readonly PromptMessage[]): string => new PromptDigest().of(list);

describe("the digest of a prompt", () => {
  it("does not depend on the prompts before", () => {
    const digest = new PromptDigest();
    for (const count of [0, 1, 3, 2, 2, 5]) expect(digest.of(messages(count))).toBe(fresh(messages(count)));
  });

  it("changes with a message that was modified in place", () => {
    const digest = new PromptDigest();
    const list = messages(4);
    const before = digest.of(list);
    (list[1] as unknown as { content: { text: string }[] }).content[0]!.text = "shortened";
    expect(digest.of(list)).not.toBe(before);
    expect(digest.of(list)).toBe(fresh(list));
  });

  it("changes with the order of messages and of keys", () => {
    const digest = new PromptDigest();
    const list = messages(3);
    const before = digest.of(list);
    expect(digest.of([...list].reverse())).not.toBe(before);
    const [first, ...rest] = list as [PromptMessage, ...PromptMessage[]];
    const reordered = [Object.fromEntries(Object.entries(first).reverse()) as never, ...rest];
    digest.of(list);
    expect(digest.of(reordered)).toBe(fresh(reordered));
  });
});
