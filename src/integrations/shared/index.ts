/** What integrations share. */
export { isMoved, retryWrite } from "./retry-write.js";
