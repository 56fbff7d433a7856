/** The inspector: a web page for everything in a store, and the JSON API behind it, as a handler of `Request` and `Response`. */
export { createInspector, type Inspector } from "./inspector.js";
export type { InspectorOptions } from "./options.js";
export { type FetchHandler, toNodeListener } from "./node-listener.js";
export type * from "./api.js";
export { encodeId } from "./api.js";
