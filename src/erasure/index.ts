/**
 * Erasure: removes a session, a conversation or an agent so that none of its content is left in the store's files, and reports
 * the copies that the store cannot reach.
 */
export { erase, type EraseOptions, type EraseProgress, type EraseReport, type EraseTarget } from "./erase.js";
