export { applyChanges, type Change } from "./change.js";
export { diffStates } from "./diff.js";
