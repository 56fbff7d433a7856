/**
 * The shadow of a state: conversion from and to live values, comparison, layout into items, and revision. The shadow of a
 * branch must always equal the state that is stored last; after a failed revision or commit it is discarded.
 */
export { appendToShadow, appendToValue } from "./append.js";
export { type AnyStoredClass, ClassRegistry, type StoredClass } from "./class-registry.js";
export { equalsShadow } from "./equality.js";
export { layoutChild, layoutElement, layoutState } from "./layout.js";
export { ITEM_LIMITS, MAX_BIGINT_LENGTH, MAX_DEPTH } from "./limits.js";
export { coalesce, innerNode, leafNode, PieceTree, splitPieces, type TreeForm, type TreeNode } from "./piece-tree.js";
export { depthOfPath, joinPointer, parsePointer, type Path, pathToPointer } from "./pointer.js";
export { RecordedValues, type StoredValue } from "./recorded-values.js";
export { BLOB_NAMES, formatRefs, parseRefs, type Piece, type Ref, renameBlobs } from "./refs.js";
export { newShadow, reviseShadow } from "./revision.js";
export {
  BlobNode,
  estimateSize,
  hasNodes,
  isPlainObject,
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
export { hashBytes } from "./hash.js";
export { valueToShadow } from "./value-to-shadow.js";
