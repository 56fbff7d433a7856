export { appendToShadow, appendToValue } from "./append.js";
export { valueToShadow, hashBytes } from "./value-to-shadow.js";
export { ITEM_LIMITS } from "./limits.js";
export { type Address, coalesce, innerNode, leafNode, PieceTree, type TreeForm, type TreeNode } from "./piece-tree.js";
export { joinPointer, parsePointer, type Path, pathToPointer } from "./pointer.js";
export { RecordedValues } from "./recorded-values.js";
export { formatRefs, parseRefs, type Piece, type Ref } from "./refs.js";
export { type AnyStoredClass, ClassRegistry, type StoredClass } from "./class-registry.js";
export { newShadow, reviseShadow, layoutState } from "./revision.js";
export { isPlainObject, equalsShadow } from "./equality.js";
export { layoutChild, layoutElement } from "./layout.js";
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
export { freezeState, shadowToValue } from "./shadow-to-value.js";
