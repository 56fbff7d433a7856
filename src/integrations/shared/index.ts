/** Code that the integrations share. */
export { isMoved, retryWrite } from "./retry-write.js";
