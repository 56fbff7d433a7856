// The world that the agent of the crash tests acts upon: a log, written synchronously, in which everything that was done
// can be found; and death, at a point that is named beforehand.
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { storeUrl } from "./store-url.mjs";

/** @typedef {{ point: string, passing: number }} Death */

export class World {
  /** How often each point was passed. @type {Map<string, number>} */
  passed = new Map();

  /** @param {string} folder @param {Death} [death] */
  constructor(folder, death) {
    this.url = storeUrl(folder);
    this.log = join(folder, "world.log");
    this.death = death;
  }

  /** Passes a point, and dies there if it is the chosen one. @param {string} point */
  pass(point) {
    const passing = (this.passed.get(point) ?? 0) + 1;
    this.passed.set(point, passing);
    if (point === this.death?.point && passing === this.death.passing) process.kill(process.pid, "SIGKILL");
  }

  /** @param {string} line */
  note(line) {
    appendFileSync(this.log, `${line}\n`);
  }

  /** What the log says of an effect after its key, if it happened. @param {string} id @returns {string | undefined} */
  markOf(id) {
    const lines = existsSync(this.log) ? readFileSync(this.log, "utf8").split("\n") : [];
    return lines.find((line) => line.startsWith(`end ${id} `))?.split(" ")[3];
  }

  /** Whether the effect happened, according to the log. @param {string} id */
  happened(id) {
    return existsSync(this.log) && readFileSync(this.log, "utf8").includes(`end ${id} `);
  }
}
