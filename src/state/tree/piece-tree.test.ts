import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Frame } from "../codec/frame.js";
import { readTree } from "../codec/stored-tree.js";
import { seeded } from "../../../test/support/states/history.js";
import { MAX_INLINE_PIECES, NODE_FANOUT } from "./limits.js";
import { PieceTree, type TreeForm } from "./piece-tree.js";
import { formatRefs, type Piece } from "./refs.js";
import { runs } from "../../../test/support/runs.js";

describe("a piece tree", () => {
  it("has the same elements as an array after the same splices, with any number of ranges and of stores", async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: 2 ** 31 - 1 }), async (seed) => {
        const random = seeded(seed);
        const nodes = new Nodes();
        let tree = new PieceTree();
        let model: number[] = [];
        let next = 0;
        const most = [20, 300, 5000][random(3)] as number;
        for (let step = 0; step < 40; step++) {
          const start = random(4) === 0 ? model.length : random(model.length + 1);
          const remove = random(5) ? random(3) : random(model.length - start + 1);
          const pieces: Piece[] = [];
          for (let count = random(4) ? random(3) : random(most); count > 0; count--) {
            pieces.push({ tape: 0, start: next, count: 1 + random(3) });
            next += 4;
          }
          tree.splice(start, remove, pieces);
          model = [...model.slice(0, start), ...expand(pieces), ...model.slice(start + remove)];
          expect(tree.count).toBe(model.length);
          const at = random(model.length + 1);
          expect(expand(tree.slice(at, 10))).toEqual(model.slice(at, at + 10));
          if (random(3)) continue;
          const form = tree.store((node) => nodes.write(node));
          expect(form.pieces.length).toBeLessThanOrEqual(MAX_INLINE_PIECES);
          const read = new PieceTree(await readTree(form, nodes.reader));
          expect(expand(read.slice(0, read.count)).join()).toBe(model.join());
          if (random(2)) tree = read;
        }
      }),
      { numRuns: runs(20, 3) },
    );
  });

  it("rewrites only one path of nodes for an edit", () => {
    const nodes = new Nodes();
    const tree = new PieceTree();
    tree.splice(
      0,
      0,
      Array.from({ length: 20_000 }, (_, index) => ({ tape: 0, start: index * 2, count: 1 })),
    );
    tree.store((node) => nodes.write(node));
    const before = nodes.items.length;
    tree.splice(7000, 1, [{ tape: 0, start: 1_000_001, count: 1 }]);
    tree.store((node) => nodes.write(node));
    expect(nodes.items.length - before).toBeLessThanOrEqual(3);
  });
});

class Nodes {
  readonly items: Frame[] = [];

  write(form: TreeForm): Piece {
    expect(form.pieces.length).toBeLessThanOrEqual(NODE_FANOUT);
    const json = JSON.stringify(form.level === 0 ? [0] : [form.level, form.counts]);
    const start = this.items.push({ json, refs: formatRefs([{ pieces: form.pieces }], 0) }) - 1;
    return { tape: 0, start, count: 1 };
  }

  readonly reader = {
    items: async (pieces: readonly Piece[]) => expand(pieces).map((item) => this.items[item] as Frame),
    blob: async () => ({ unreadable: "there are none" }),
  };
}

function expand(pieces: readonly Piece[]): number[] {
  return pieces.flatMap(({ start, count }) => Array.from({ length: count }, (_, index) => start + index));
}
