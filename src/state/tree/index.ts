export { appendToShadow, appendToValue } from "./append.js";
export { cloneValue, hashBytes } from "./clone.js";
export { ITEM } from "./limits.js";
export { type Address, coalesce, inner, leaf, PieceTree, type TreeForm, type TreeNode } from "./piece-tree.js";
export { joinPointer, parsePointer, type Path, pathToPointer } from "./pointer.js";
export { Recorded } from "./recorded.js";
export { formatRefs, parseRefs, type Piece, type Ref } from "./refs.js";
export { type AnyStoredClass, ClassRegistry, type StoredClass } from "./registry.js";
export { newShadow, reviseShadow, settleState } from "./revise.js";
export { isPlainObject, isSame } from "./same.js";
export { settleChild, settleElement } from "./settle.js";
export {
  BlobNode,
  estimateSize,
  hasNodes,
  isStoredNode,
  type ListKind,
  ListNode,
  setKey,
  type Shadow,
  type ShadowObject,
  type StoredNode,
  TAG,
  tagOf,
  TextNode,
  ValueNode,
} from "./shadow.js";
export { freezeState, shadowToValue } from "./value.js";
