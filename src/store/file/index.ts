export { openFileStore } from "./store.js";
