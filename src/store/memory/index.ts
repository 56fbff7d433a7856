export { openMemoryStore } from "./store.js";
