/**
 * The difference between two states, computed from their stored form. Applying the changes to the first state gives the second
 * one, and only parts that differ are read.
 */
export { applyChanges, type Change } from "./change.js";
export { diffStates } from "./diff.js";
