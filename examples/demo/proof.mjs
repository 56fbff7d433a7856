// Checks the evidence: the log that the effects wrote, and the files that they produced.
//
// An effect is certainly recorded in two cases:
// - The function of a later effect that depends on it was entered. Savepoint promises that everything before is on disk by
//   then, and the agent starts "charge 3" only with the result of "think 3".
// - Its result is in the store, read by another process after the kill: in the journal of the current step, or as part of a
//   completed step.
// After that place in the log its function must not be entered again; if it is, a recorded effect was repeated. The first
// rule uses only the log, which the effects write themselves. The second rule also covers effects that were recorded just
// before a kill.
//
// An effect that was entered but not recorded before a kill was interrupted. Its policy defines what is allowed then, and
// the log, the ledger, the invoices and the outbox show what happened.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * A line of the log. The demo writes the lines "kill" and "answer", and the agent writes all others.
 *
 * @typedef {object} Line
 * @property {string} what
 * @property {number} at
 * @property {string} [effect]
 * @property {string} [key]
 * @property {boolean} [found]
 * @property {number} [cost]
 * @property {string[]} [journal] the effects of the current step whose results were in the store
 * @property {number} [done] the number of completed steps, according to the store
 */

/** @param {string} folder @returns {Line[]} */
export function readEvidence(folder) {
  const text = readFileSync(join(folder, "evidence.log"), "utf8");
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));
}

/** The effects of an order, in the order in which they depend on each other. */
const STAGES = ["think", "charge", "invoice", "mail"];

/** @param {string} effect */
function placeOf(effect) {
  const [name = "", order = ""] = effect.split(" ");
  return { order: Number.parseInt(order), stage: Math.min(STAGES.indexOf(name), 2) };
}

/** @param {string} earlier @param {string} later */
function isAwaitedBy(earlier, later) {
  const [a, b] = [placeOf(earlier), placeOf(later)];
  return a.order < b.order || (a.order === b.order && a.stage < b.stage);
}

/** @param {Line[]} evidence @param {string} folder @param {number} orders @param {readonly string[]} done */
export function prove(evidence, folder, orders, done) {
  /** @type {string[]} */
  const problems = [];
  const entered = /** @type {Map<string, number>} */ (new Map());
  const keys = /** @type {Map<string, string | undefined>} */ (new Map());
  const recorded = /** @type {Set<string>} */ (new Set());
  /** Effects that were entered in the current process and are not known to be recorded. */
  let open = /** @type {Set<string>} */ (new Set());
  /** Interrupted effects, and whether they may be executed again. */
  const unknown = /** @type {Map<string, "may" | "must not">} */ (new Map());
  const interrupted = { think: 0, charge: 0, invoice: 0, mail: 0 };
  const happened = /** @type {Set<string>} */ (new Set());
  let again = 0;
  let repeated = 0;

  for (const { what, effect = "", key, found, journal = [], done: steps = 0 } of evidence) {
    const name = /** @type {keyof typeof interrupted} */ (effect.split(" ")[0]);
    if (what === "begin") {
      const before = entered.get(effect) ?? 0;
      entered.set(effect, before + 1);
      if (recorded.has(effect)) {
        repeated++;
        problems.push(`${effect} was executed again although it was recorded`);
      } else if (before > 0 && unknown.get(effect) !== "may") {
        problems.push(`${effect} was executed again although its policy does not allow it`);
      }
      if (before > 0 && keys.get(effect) !== key) problems.push(`${effect} was executed again with a different key`);
      if (before > 0) again++;
      keys.set(effect, key);
      unknown.delete(effect);
      for (const earlier of entered.keys()) if (isAwaitedBy(earlier, effect)) recorded.add(earlier);
      open.add(effect);
    } else if (what === "look" || what === "answer") {
      if (recorded.has(effect)) problems.push(`${effect} was treated as interrupted although it was recorded`);
      // It was killed after its start was recorded and before its function was entered.
      if (!unknown.has(effect)) interrupted[name]++;
      if (found) happened.add(effect);
      unknown.set(effect, found ? "must not" : "may");
    } else if (what === "kill") {
      for (const each of journal) recorded.add(each);
      for (const each of entered.keys()) if (placeOf(each).order <= steps) recorded.add(each);
      for (const each of open) {
        if (recorded.has(each)) continue;
        const kind = /** @type {keyof typeof interrupted} */ (each.split(" ")[0]);
        interrupted[kind]++;
        // Model calls and mails are repeated. Invoices and charges only if a check shows that they did not happen.
        unknown.set(each, kind === "think" || kind === "mail" ? "may" : "must not");
      }
      open = new Set();
    }
    if (what === "waiting" && name !== "charge")
      problems.push(`the run waits for ${effect || "an unknown effect"}, which is not a charge`);
  }

  // The files and the state must contain everything exactly once.
  const expected = Array.from({ length: orders }, (_, index) => index + 1);
  const ledger = readFileSync(join(folder, "ledger.txt"), "utf8").trim().split("\n");
  const invoices = readdirSync(join(folder, "invoices"))
    .map((file) => Number.parseInt(file))
    .sort((a, b) => a - b);
  const mails = readdirSync(join(folder, "outbox")).map((file) => readFileSync(join(folder, "outbox", file), "utf8"));
  const same = (/** @type {unknown} */ a, /** @type {unknown} */ b) => JSON.stringify(a) === JSON.stringify(b);
  const charges = expected.map((n) => `order ${n}`);
  if (!same(ledger, charges)) problems.push(`the ledger contains ${ledger.join(", ")}`);
  if (!same(invoices, expected)) problems.push(`there are invoices for the orders ${invoices.join(", ")}`);
  if (!same(mails.sort(), expected.flatMap((n) => [`mail ${n}a`, `mail ${n}b`]).sort())) {
    problems.push(`the outbox contains ${mails.join(", ")}`);
  }
  const wanted = expected.map((n) => `charged ${n}, invoiced ${n}, mailed ${n}a, mailed ${n}b`);
  if (!same(done, wanted)) problems.push(`the state contains ${done.join("; ")}`);
  if (entered.size !== orders * 5 + 1)
    problems.push(`${entered.size} effects were executed, expected ${orders * 5 + 1}`);

  return { problems, repeated, effects: entered.size, interrupted, again, happened: happened.size };
}
