/** Runs cases that its parent sends, one at a time. Whatever happens to this process is the result of the case. */
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { runCase } from "./exercise.mjs";

/** @param {object} message */
const send = (message) => process.send?.(message);

/** @type {(error: unknown) => void} */
const onStray = (error) => {
  send({ stray: error instanceof Error ? `${error.name}: ${error.message}\n${error.stack}` : String(error) });
};
process.on("uncaughtException", onStray);
process.on("unhandledRejection", onStray);
process.on("disconnect", () => process.exit(0));

process.on(
  "message",
  (
    /** @type {{ store: string, seed: number, templates: string, work: string, keep: boolean }} */ {
      store,
      seed,
      templates,
      work,
      keep,
    },
  ) => {
    const folder = mkdtempSync(join(work, `${store}-${seed}-`));
    process.chdir(folder);
    const started = performance.now();
    const onOperation = (/** @type {string} */ operation) => send({ operation });
    void runCase({ store, seed, templates, folder }, onOperation, (mutation) => send({ mutation })).then(
      ({ findings, rejections }) => {
        process.chdir(work);
        if (!keep) rmSync(folder, { recursive: true, force: true });
        const { maxRSS } = process.resourceUsage();
        send({ done: { findings, rejections, milliseconds: performance.now() - started, megabytes: maxRSS / 1024 } });
      },
      (error) => send({ failed: String(error?.stack ?? error) }),
    );
  },
);
send({ ready: true });
