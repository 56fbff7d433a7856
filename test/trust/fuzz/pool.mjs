/** Runs cases in child processes with little memory. A child that dies or hangs is a finding, and is replaced. */
import { fork } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const child = fileURLToPath(new URL("child.mjs", import.meta.url));

/** Megabytes that the heap of a child may use, and that the child may use in all. */
const HEAP = 256;
const MAX_MEGABYTES = 900;
/** Cases after which a child is replaced, so that one case is not blamed for the memory of many. */
const CASES_PER_CHILD = 40;

/** @typedef {import("./exercise.mjs").Finding} Finding */
/** @typedef {{ store: string, seed: number, kind: string, detail: string, findings: Finding[], rejections: number, milliseconds: number }} Outcome */
/** @typedef {{ templates: string, work: string, limit: number, keep?: boolean }} Settings `limit`: milliseconds per operation */

/** How many times longer than its limit an operation may take if it does not use that much processor time. */
const MAX_SLOWDOWN = 10;

/** The processor time of a process in milliseconds, in ticks of 10 ms; elsewhere than on Linux, infinite. @param {number | undefined} pid */
function cpuTimeOf(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
    return (Number(fields[11]) + Number(fields[12])) * 10;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/** One child at a time. */
export class CaseRunner {
  /** @type {import("node:child_process").ChildProcess | undefined} */
  #child;
  #cases = 0;

  /** @param {Settings} settings */
  constructor(settings) {
    this.settings = settings;
  }

  /**
   * Runs a case. A case that seems to hang is repeated in a new process, because the machine may have been busy.
   *
   * @param {string} store @param {number} seed @returns {Promise<Outcome>}
   */
  async run(store, seed) {
    const outcome = await this.#runOnce(store, seed, this.settings.limit);
    const isSlow = outcome.findings.some(({ rule }) => rule === "hang");
    return isSlow ? this.#runOnce(store, seed, this.settings.limit) : outcome;
  }

  /** @param {string} store @param {number} seed @param {number} limit @returns {Promise<Outcome>} */
  async #runOnce(store, seed, limit) {
    const process = (this.#child ??= await this.#start());
    let operation = "start";
    /** @type {Finding[]} */
    const findings = [];
    let [kind, detail, rejections, milliseconds] = ["unknown", "", 0, 0];
    /** @param {string} rule @param {string} message @param {string} [stack] */
    const report = (rule, message, stack = "") => findings.push({ rule, operation, message, stack });
    await new Promise((resolve) => {
      // A hang can block the event loop of the child, so only the parent can notice it.
      /** @type {NodeJS.Timeout} */
      let timer;
      const startClock = () => {
        clearTimeout(timer);
        const began = { at: performance.now(), cpu: cpuTimeOf(process.pid) };
        const check = () => {
          // On a busy machine an operation takes longer without doing more.
          const left = limit - (cpuTimeOf(process.pid) - began.cpu);
          if (left > 0 && performance.now() - began.at < MAX_SLOWDOWN * limit) {
            timer = setTimeout(check, Math.max(left, 100));
            return;
          }
          report("hang", `no end after ${limit / 1000} s of processor time`);
          process.kill("SIGKILL");
        };
        timer = setTimeout(check, limit);
      };
      startClock();
      const finish = () => {
        clearTimeout(timer);
        process.removeAllListeners("message").removeAllListeners("exit");
        resolve(undefined);
      };
      process.on("message", (/** @type {any} */ message) => {
        if (message.operation) operation = message.operation;
        startClock();
        if (message.mutation) ({ kind, detail } = message.mutation);
        if (message.stray) {
          const [first = "", ...stack] = message.stray.split("\n");
          report(
            "unhandled error",
            first,
            stack
              .filter((/** @type {string} */ line) => line.includes("/dist/"))
              .slice(0, 3)
              .map((/** @type {string} */ line) => line.trim().replace(/file:.*\/dist\//, ""))
              .join(" < "),
          );
        }
        if (message.failed) report("the fuzzer failed", message.failed);
        if (message.done) {
          findings.push(...message.done.findings);
          ({ rejections, milliseconds } = message.done);
          if (message.done.megabytes > MAX_MEGABYTES) report("memory", `${Math.round(message.done.megabytes)} MB`);
        }
        if (message.done || message.failed) finish();
      });
      process.on("exit", (code, signal) => {
        this.#child = undefined;
        if (!findings.some(({ rule }) => rule === "hang")) report("crash", `the process ended with ${signal ?? code}`);
        finish();
      });
      process.send({
        store,
        seed,
        templates: this.settings.templates,
        work: this.settings.work,
        keep: this.settings.keep ?? false,
      });
    });
    if (++this.#cases >= CASES_PER_CHILD || findings.length > 0) await this.stop();
    return { store, seed, kind, detail, findings, rejections, milliseconds };
  }

  async #start() {
    const started = fork(child, {
      execArgv: [`--max-old-space-size=${HEAP}`],
      stdio: ["ignore", "ignore", "ignore", "ipc"],
    });
    await new Promise((resolve, reject) => {
      started.once("message", resolve);
      started.once("exit", (code) =>
        reject(new Error(`A child of the fuzzer ended with ${code} before its first case. Run \`npm run build\`.`)),
      );
    });
    started.removeAllListeners("exit");
    this.#cases = 0;
    return started;
  }

  async stop() {
    const process = this.#child;
    this.#child = undefined;
    if (!process || process.exitCode !== null || process.signalCode !== null) return;
    await new Promise((resolve) => {
      process.removeAllListeners().once("exit", resolve);
      process.kill("SIGKILL");
    });
  }
}
