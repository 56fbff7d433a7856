import { describe, expect, it } from "vitest";
import { encodeShadow } from "../codec/index.js";
import { ClassRegistry } from "./class-registry.js";
import { flatten } from "./flat.js";
import { RecordedValues } from "./recorded-values.js";
import { newShadow, reviseShadow } from "./revision.js";
import type { ListNode, Shadow, ShadowObject } from "./shadow.js";
import { valueToShadow } from "./value-to-shadow.js";

const registry = new ClassRegistry();
const message = (content: unknown): object => ({ role: "tool", content: [{ type: "tool-result", output: content }] });

/** A branch whose runs have recorded values on tape 1. */
class Branch {
  readonly recorded = new RecordedValues(registry);
  shadow: Shadow = newShadow({ messages: [message("the first of the messages, in a list of its own")] }, registry);
  #items = 0;
  #results = 0;

  constructor() {
    this.#encode();
  }

  record(value: unknown): void {
    const piece = { tape: 1, start: this.#results++, count: 1 };
    this.recorded.add({ shadow: valueToShadow(value, registry), piece, bytes: JSON.stringify(value).length });
  }

  /** The items that a checkpoint of these messages writes. */
  save(messages: readonly unknown[]): readonly { json: string; refs: string }[] {
    this.shadow = reviseShadow(this.shadow, { messages }, registry, undefined, this.recorded);
    return this.#encode();
  }

  get list(): ListNode {
    return (this.shadow as ShadowObject)["messages"] as unknown as ListNode;
  }

  #encode(): readonly { json: string; refs: string }[] {
    const { items } = encodeShadow(this.shadow, 0, this.#items);
    this.#items += items.length;
    return items;
  }
}

const first = message("the first of the messages, in a list of its own");

describe("a value that a run has recorded", () => {
  it.each([
    ["string", "x".repeat(300)],
    ["object", { text: "x".repeat(300) }],
  ])("is stored once, and not written again by the next checkpoint: %s", (_, value) => {
    const branch = new Branch();
    branch.record(value);
    expect(branch.save([first, message(value)])).toEqual([{ json: expect.not.stringContaining("xxx"), refs: "1:0+1" }]);
    expect(branch.save([first, structuredClone(message(value))])).toEqual([]);
    expect(branch.save([first, message(value), message("another")])).toHaveLength(1);
    expect(branch.save([first, message("changed"), message("another")])).toHaveLength(1);
  });

  it("is compared in the flat form", () => {
    const branch = new Branch();
    branch.record("x".repeat(300));
    branch.save([first, message("x".repeat(300))]);
    expect(flatten(branch.list.elements[1] as Shadow)).toContain("x".repeat(300));
  });

  it("is copied if it is an element of a list and too small for a range of its own", () => {
    const branch = new Branch();
    const [small, large] = [message("x".repeat(300)), message("x".repeat(1500))];
    branch.record(small);
    branch.record(large);
    expect(branch.save([first, small, large])).toEqual([{ json: JSON.stringify(small), refs: "" }]);
  });
});
