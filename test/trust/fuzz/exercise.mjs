/** Everything that a user does with a store or a bundle that another person made, and what must be true afterwards. */
import { cpSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { isSavepointError, Savepoint } from "savepoint";
import { createRandom, pick } from "../../chaos/random.mjs";
import { mutateBundle } from "./bundles.mjs";
import { mutateFiles } from "./files.mjs";
import { mutateSeveral } from "./records.mjs";
import { createAgent, VICTIM, VICTIM_AGENT } from "./seed.mjs";
import { readAgent, readSession } from "./snapshot.mjs";
import { mutateSqlite } from "./sqlite.mjs";
import { urlOf } from "./templates.mjs";

/** @typedef {{ rule: string, operation: string, message: string, stack: string }} Finding */
/** @typedef {(operation: string) => void} OnOperation called before each operation, so that a hang or a crash can be attributed */
/** @typedef {(mutation: import("./records.mjs").Mutation) => void} OnMutation called when the store or bundle is changed */

/** Sessions that are compared unless the change touches them. */
const COMPARED = [VICTIM, "alpha", "beta"];

/** One case: runs operations, and collects what they do wrong. */
class Case {
  /** @type {Finding[]} */
  findings = [];
  executed = 0;
  /** Operations that failed with an error of Savepoint. */
  rejections = 0;
  operation = "";
  agent = createAgent(() => this.executed++);

  /** @param {OnOperation} onOperation @param {OnMutation} onMutation */
  constructor(onOperation, onMutation) {
    this.onOperation = onOperation;
    this.onMutation = onMutation;
  }

  /** @param {string} rule @param {string} message @param {string} [stack] */
  report(rule, message, stack = "") {
    this.findings.push({ rule, operation: this.operation, message: message.slice(0, 300), stack });
  }

  /** Runs an operation. It may fail, with an error of Savepoint. @template T @param {string} name @param {() => Promise<T>} work @returns {Promise<T | undefined>} */
  async attempt(name, work) {
    this.operation = name;
    this.onOperation(name);
    try {
      return await work();
    } catch (error) {
      this.#judge("error that is not a SavepointError", error);
      return undefined;
    }
  }

  /** @param {string} rule @param {unknown} error */
  #judge(rule, error) {
    if (isSavepointError(error)) {
      this.rejections++;
      return;
    }
    const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
    const frames = (stack ?? "").split("\n").filter((line) => line.includes("/dist/"));
    this.report(
      rule,
      `${name}: ${message}`,
      frames
        .slice(0, 4)
        .map((line) =>
          line
            .trim()
            .replace(/file:.*\/dist\//, "")
            .replace(/^at /, ""),
        )
        .join(" < "),
    );
  }

  /** @param {string} url @param {string} [prefix] */
  async open(url, prefix = "") {
    return this.attempt(`${prefix}open`, () =>
      Savepoint.open(url, {
        durability: "process",
        busyTimeout: 2000,
        on: {
          damage: () => {},
          uncleanShutdown: () => {},
          backgroundFailure: ({ error }) => this.#judge("background failure that is not a SavepointError", error),
        },
      }),
    );
  }

  /** Reads everything. @param {Savepoint} sp @param {string} [prefix] */
  async read(sp, prefix = "") {
    /** @param {string} name @param {() => Promise<any>} work */
    const attempt = (name, work) => this.attempt(prefix + name, work);
    const sessions = (await attempt("sessions.list", () => sp.sessions.list().all())) ?? [];
    const ids = new Set([
      ...sessions.map((/** @type {{ id: string }} */ { id }) => id),
      "alpha",
      "beta",
      "scattered",
      "run-hangs",
      "run-asks",
      "run-answered",
    ]);
    for (const id of ids) {
      if (typeof id !== "string" || id === VICTIM) continue;
      await attempt("sessions.load", () => sp.sessions.load(id));
      await attempt("session.latest", () => sp.session(id).latest());
      const history =
        (await attempt("session.history", () => sp.session(id).history({ allBranches: true }).all())) ?? [];
      await attempt("session.history of main", () => sp.session(id).history().all());
      await attempt("session.branches", () => sp.session(id).branches().all());
      for (const info of history.slice(0, 8)) {
        await attempt("session.load", () => sp.session(id).load(info.id));
        await attempt("session.load of a part", () => sp.session(id).load({ seq: info.seq }, { partial: true }));
      }
      await attempt("session.annotations", () => sp.session(id).annotations(0, 20));
      await attempt("journal", () => sp.journal(id).all());
    }
    const agents = (await attempt("agents.list", () => sp.agents.list().all())) ?? [];
    for (const { id } of agents) {
      await attempt("agents.load", () => sp.agents.load(id));
    }
    const conversations = (await attempt("conversations.list", () => sp.conversations.list().all())) ?? [];
    for (const { id } of conversations) await attempt("conversations.load", () => sp.conversations.load(id));
    const checkpoints = (await attempt("checkpoints.list", () => sp.checkpoints.list({ of: "agent" }).all())) ?? [];
    for (const { id } of checkpoints.slice(0, 6)) {
      const loaded = await attempt("checkpoints.load", () => sp.checkpoints.load(id));
      for (const past of loaded?.conversations ?? [])
        await attempt("conversations.load at", () => sp.conversations.load(past.id, { at: id }));
    }
    await attempt("checkpoints.list of all", () => sp.checkpoints.list().all());
    for (const text of ["order", "needle", "ha"]) await attempt("search", () => sp.search(text));
    await attempt("stats", () => sp.stats());
    await attempt("stats of an agent", () => sp.stats({ agent: "agent-a" }));
    await attempt("verify", () => sp.verify());
    await attempt("verify deep", () => sp.verify({ deep: true }));
  }

  /** Changes everything that was forged, as its owner would. @param {Savepoint} sp @param {string} prefix */
  async write(sp, prefix) {
    for (const id of ["alpha", "beta", "scattered", "run-hangs", "run-asks"]) {
      await this.attempt(`${prefix}session.save`, () => sp.session(id).save({ replaced: true }));
      await this.attempt(`${prefix}prune`, () => sp.prune({ session: id, keepLast: 2 }));
    }
    await this.attempt(`${prefix}conversations.append`, () =>
      sp.conversations.append("agent-a-cut", [{ role: "user", content: "more" }]),
    );
    await this.attempt(`${prefix}checkpoints.create`, () => sp.checkpoints.create({ agent: "agent-a" }));
    for (let n = 0; n < 3; n++)
      await this.attempt(`${prefix}save of a new session`, () => sp.session(`new-${n}`).save({ n }));
    await this.attempt(`${prefix}sessions.delete`, () => sp.sessions.delete("scattered"));
    await this.attempt(`${prefix}compact`, () => sp.compact());
  }

  /** Runs a worker until it has searched the queue once. @param {Savepoint} sp @param {string} prefix */
  async work(sp, prefix) {
    await this.attempt(`${prefix}worker`, async () => {
      const worker = sp.worker([this.agent], { signals: false, grace: 100 });
      await worker.start();
      await worker.stop();
    });
  }

  /** @param {Savepoint} sp */
  async snapshot(sp) {
    /** @type {Record<string, unknown>} */
    const all = {};
    for (const id of COMPARED) all[id] = await this.#readOrFailure(() => readSession(sp, id));
    all[VICTIM_AGENT] = await this.#readOrFailure(() => readAgent(sp, VICTIM_AGENT));
    return all;
  }

  /** @param {() => Promise<unknown>} read */
  async #readOrFailure(read) {
    try {
      return await read();
    } catch (error) {
      return `failed: ${String(error)}`;
    }
  }

  /** @param {Savepoint} sp @param {Record<string, unknown>} before @param {readonly string[]} ids @param {string} after */
  async compare(sp, before, ids, after) {
    this.operation = after;
    this.onOperation(`comparison after ${after}`);
    const now = await this.snapshot(sp);
    for (const id of ids) {
      if (isDeepStrictEqual(now[id], before[id])) continue;
      this.report(
        `${id.startsWith("victim") ? "the victim" : "an untouched session"} changed`,
        difference(before[id], now[id]),
      );
    }
  }
}

/** Where two values differ first. @param {any} a @param {any} b @param {string} [path] @returns {string} */
function difference(a, b, path = "") {
  if (isDeepStrictEqual(a, b)) return "";
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null)
    return `${path}: ${String(a).slice(0, 80)} → ${String(b).slice(0, 200)}`;
  for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) {
    const found = difference(a[key], b[key], `${path}/${key}`);
    if (found !== "") return found;
  }
  return `${path} differs`;
}

/** The names, bytes and times of all files in a folder. @param {string} folder @returns {Record<string, string>} */
function fingerprint(folder) {
  /** @type {Record<string, string>} */
  const files = {};
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    const stat = statSync(join(folder, name));
    files[name] = `${stat.mtimeMs} ${stat.isFile() ? readFileSync(join(folder, name), "utf8") : ""}`;
  }
  return files;
}

/** Files beside the store that nothing may touch. @param {string} folder */
function plantCanary(folder) {
  const canary = join(folder, "canary");
  mkdirSync(join(canary, "blobs"), { recursive: true });
  for (const name of ["file", "file.jsonl", "log.jsonl"]) writeFileSync(join(canary, name), "do not touch\n");
  writeFileSync(join(folder, "commits.jsonl"), "do not touch\n");
  const names = readdirSync(folder).concat("a", "b").sort();
  const before = fingerprint(canary);
  return () => {
    const isSame =
      isDeepStrictEqual(fingerprint(canary), before) &&
      readFileSync(join(folder, "commits.jsonl"), "utf8") === "do not touch\n";
    return isSame && readdirSync(folder).every((name) => names.includes(name));
  };
}

/** What the stores contain before they are changed, by template. @type {Map<string, Record<string, unknown>>} */
const baselines = new Map();

/** @param {Case} run @param {string} template @param {string} store @param {string} folder */
async function baselineOf(run, template, store, folder) {
  const known = baselines.get(template);
  if (known) return known;
  const copy = join(folder, "a");
  cpSync(template, copy, { recursive: true });
  const sp = await Savepoint.open(urlOf(store, copy), { durability: "process", on: { uncleanShutdown: () => {} } });
  const snapshot = await run.snapshot(sp);
  await sp.close();
  baselines.set(template, snapshot);
  return snapshot;
}

/**
 * Runs one case.
 *
 * @param {{ store: string, seed: number, templates: string, folder: string }} options `folder`: an empty folder for the case
 * @param {OnOperation} onOperation @param {OnMutation} onMutation @returns {Promise<{ findings: Finding[], rejections: number }>}
 */
export async function runCase({ store, seed, templates, folder }, onOperation, onMutation) {
  const random = createRandom(seed);
  const run = new Case(onOperation, onMutation);
  if (store === "bundle") await runBundle(run, random, templates, folder);
  else await runStore(run, store, random, templates, folder);
  if (Object.keys(Object.prototype).length > 0)
    run.report("prototype polluted", Object.keys(Object.prototype).join(" "));
  return { findings: run.findings, rejections: run.rejections };
}

/** @param {Case} run @param {string} store @param {() => number} random @param {string} templates @param {string} folder */
async function runStore(run, store, random, templates, folder) {
  const template = join(templates, `subject-${store}`);
  run.onOperation("baseline");
  mkdirSync(join(folder, "base"));
  const before = await baselineOf(run, template, store, join(folder, "base"));
  const [a, b] = [join(folder, "a"), join(folder, "b")];
  cpSync(template, a, { recursive: true });
  const isCanaryIntact = plantCanary(folder);
  run.onOperation("mutation");
  const mutations = await mutateSeveral(random, () =>
    store === "sqlite" ? mutateSqlite(join(a, "store.db"), random) : mutateFiles(join(a, "store"), random),
  );
  const mutation = {
    kind: mutations[0].kind,
    detail: mutations.map(({ detail }) => detail).join(" and "),
    touched: mutations.flatMap(({ touched }) => touched),
  };
  run.onMutation(mutation);
  cpSync(a, b, { recursive: true });
  const isPolicy = mutation.detail.includes('"p\\t') || mutation.detail.includes('["p');
  const isTouched = (/** @type {string} */ id) =>
    isPolicy || mutation.touched.some((owner) => owner.includes(id) || (owner === "*" && !id.startsWith("victim")));
  const untouched = [...COMPARED, VICTIM_AGENT].filter(
    (id) => !isTouched(id) && !(mutation.touched.includes(VICTIM) && id.startsWith(VICTIM)),
  );
  const sp = await run.open(urlOf(store, a));
  if (sp) {
    await run.read(sp);
    await run.compare(sp, before, untouched, "reading");
    if (run.executed > 0) run.report("a run was executed", "without a worker");
    const bytes = await run.attempt("export", () => sp.export({}).bytes());
    if (bytes) await importInto(run, "memory:", bytes, { existing: "skip" }, "import of the export: ");
    await run.write(sp, "");
    const written = new Set(["alpha", "beta"]);
    await run.compare(
      sp,
      before,
      untouched.filter((id) => !written.has(id)),
      "writing to others and compact",
    );
    await run.work(sp, "");
    await run.attempt("close", () => sp.close());
  }
  const repaired = await run.open(urlOf(store, b), "repair: ");
  if (repaired) {
    await run.attempt("repair", () => repaired.repair());
    await run.attempt("repair: verify", () => repaired.verify({ deep: true }));
    await run.compare(repaired, before, untouched, "repair");
    await run.attempt("repair: compact", () => repaired.compact());
    await run.compare(repaired, before, untouched, "repair and compact");
    await run.attempt("repair: close", () => repaired.close());
  }
  if (!isCanaryIntact()) run.report("a file outside of the store was touched", readdirSync(folder).join(" "));
}

/** @param {Case} run @param {string} url @param {Uint8Array} bytes @param {import("savepoint").ImportOptions} options @param {string} prefix */
async function importInto(run, url, bytes, options, prefix) {
  const sp = await run.open(url, prefix);
  if (!sp) return;
  await run.attempt(`${prefix}import`, () => sp.import(bytes, options));
  await run.attempt(`${prefix}close`, () => sp.close());
}

/** @param {Case} run @param {() => number} random @param {string} templates @param {string} folder */
async function runBundle(run, random, templates, folder) {
  const names = ["all", "alpha", "run-hangs", "scattered", "agent"];
  const bundle = readFileSync(join(templates, "exporter", `${pick(random, names)}.bundle`));
  let bytes = /** @type {Uint8Array} */ (bundle);
  const mutations = await mutateSeveral(random, () => {
    const changed = mutateBundle(bytes, random);
    bytes = changed.bytes;
    return changed.mutation;
  });
  const detail = mutations.map((mutation) => mutation.detail).join(" and ");
  run.onMutation({ ...mutations[0], detail });
  const store = pick(random, ["sqlite", "sqlite", "file"]);
  const template = join(templates, `target-${store}`);
  run.onOperation("baseline");
  mkdirSync(join(folder, "base"));
  const before = await baselineOf(run, template, store, join(folder, "base"));
  const a = join(folder, "a");
  cpSync(template, a, { recursive: true });
  const isCanaryIntact = plantCanary(folder);
  const unchanged = [VICTIM, VICTIM_AGENT];
  const sp = await run.open(urlOf(store, a));
  if (sp) {
    await run.attempt("verify of the bundle", () => sp.verify({ bundle: bytes }));
    await run.attempt("import", () => sp.import(bytes, random() < 0.3 ? { existing: "skip" } : {}));
    await run.compare(sp, before, unchanged, "import");
    await run.attempt("import again", () => sp.import(bytes, { existing: "skip" }));
    await run.read(sp, "");
    await run.attempt("export", () => sp.export({}).bytes());
    await run.work(sp, "");
    if (run.executed > 0) run.report("an imported run was executed", `${run.executed} steps`);
    await run.write(sp, "");
    await run.compare(sp, before, unchanged, "writing to the imported sessions and compact");
    await run.attempt("repair", () => sp.repair());
    await run.attempt("repair from the bundle", () => sp.repair({ from: bytes }));
    await run.compare(sp, before, unchanged, "repair");
    await run.attempt("close", () => sp.close());
  }
  if (!isCanaryIntact()) run.report("a file outside of the store was touched", readdirSync(folder).join(" "));
}
