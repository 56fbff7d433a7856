export type { MigrateOptions, MigrateProgress, MigrateReport } from "./migrate.js";
export type { SavepointSaverOptions } from "./options.js";
export { SavepointSaver } from "./saver.js";
export type { FoundThread, ListThreadsOptions, ThreadInfo } from "./threads.js";
