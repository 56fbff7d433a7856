/** Reads the piece tree of a list from its node items. */
import { innerNode, leafNode, type Piece, splitPieces, type TreeForm, type TreeNode } from "../tree/index.js";
import { parseNode } from "./frame.js";
import type { StateReader } from "./state-reader.js";

/** The tape of the elements below an unreadable node. No item has it. */
export const LOST_TAPE = -1;

/** Reads the tree of a list, one request per level. An unreadable node becomes a range of {@link LOST_TAPE}. */
export async function readTree(form: TreeForm, reader: StateReader): Promise<TreeNode> {
  if (form.level === 0) return leafNode(form.pieces);
  return innerNode(await readNodes(form, reader));
}

async function readNodes(form: TreeForm, reader: StateReader): Promise<TreeNode[]> {
  const frames = await reader.items(form.pieces);
  const places = splitPieces(form.pieces);
  const forms = frames.map((frame, index) =>
    "json" in frame ? parseNode(frame, (places[index] as Piece).tape) : undefined,
  );
  const nested: TreeForm = {
    level: form.level - 1,
    counts: forms.flatMap((node) => node?.counts ?? []),
    pieces: forms.flatMap((node) => node?.pieces ?? []),
  };
  const children = form.level > 1 ? await readNodes(nested, reader) : [];
  return forms.map((node, index) => {
    if (!node) return leafNode([{ tape: LOST_TAPE, start: 0, count: form.counts[index] ?? 0 }]);
    const at = places[index] as Piece;
    return form.level === 1 ? leafNode(node.pieces, at) : innerNode(children.splice(0, node.counts.length), at);
  });
}
