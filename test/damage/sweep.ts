/** Damages a small store in every place, one at a time, and checks that reads return correct data or report the damage. */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Checkpoint, isSavepointError, message, Savepoint } from "../../src/index.js";
import { type ItemSpan, openStore } from "../../src/store.js";
import { makeMemoryFolder } from "../store/temporary-folder.js";
import { asker, filesIn, type Place, show, someBytes, type State } from "./world.js";

/** What one kind of damage does to a file: other bytes, or none where it is removed. */
export interface Wound {
  readonly file: string;
  readonly what: string;
  readonly bytes: Buffer | undefined;
}

interface Small {
  /** Of the checkpoints of the session and of the run. */
  readonly ids: readonly [session: string, id: string][];
  readonly agentCheckpoint: string;
}

type Reads = readonly (readonly [name: string, read: (sp: Savepoint) => Promise<unknown>])[];

async function fill(sp: Savepoint): Promise<Small> {
  await sp.agents.save({ id: "ag", name: "A", state: { n: 1 } });
  await sp.conversations.create({ id: "c", agent: "ag", messages: [message.user("Hello"), message.assistant("Hi")] });
  const { id: agentCheckpoint } = await sp.checkpoints.create({ agent: "ag" });
  const session = sp.session<State>("s");
  const ids: [string, string][] = [];
  for (const messages of [["one"], ["one", "two"], ["one", "two", "three"]]) {
    ids.push(["s", (await session.save({ messages, bytes: someBytes(1_100) })).id]);
  }
  const side = await session.fork(ids[1]?.[1] as string, { branch: "side" });
  ids.push(["s", (await side.append("/messages", ["aside"])).id]);
  await sp.run(asker([]), { session: "w", input: "go" });
  for (const { id } of await sp.session("w").history().all()) ids.push(["w", id]);
  return { ids, agentCheckpoint };
}

function readsOf({ ids, agentCheckpoint }: Small): Reads {
  return [
    ["latest s", (sp) => sp.session("s").latest()],
    ["latest s side", (sp) => sp.session("s", { branch: "side" }).latest()],
    ["latest w", (sp) => sp.session("w").latest()],
    ...ids.map(([session, id]) => [`load ${id}`, (sp: Savepoint) => sp.session(session).load(id)] as const),
    ["conversation", (sp) => sp.conversations.load("c")],
    ["agent", (sp) => sp.agents.load("ag")],
    ["checkpoint", (sp) => sp.checkpoints.load(agentCheckpoint)],
    ["then", (sp) => sp.conversations.load("c", { at: agentCheckpoint })],
  ];
}

/** What must be correct, whatever else could not be read. */
function core(value: unknown): string {
  const { id, state, messages, seq } = value as Partial<Checkpoint> & { messages?: unknown };
  return show({ id, state, messages, seq });
}

/** Faults in the handling of damage, by severity. */
export type Fault = "crash" | "wrong" | "undefined" | "untold" | "unreported" | "repair";

export interface Offender {
  readonly fault: Fault;
  readonly what: string;
}

const EVERYTHING = { from: "", to: "\u{10ffff}" };

export class SmallStore {
  readonly folder = makeMemoryFolder();
  readonly #place: Place;
  readonly #seen = new Set<string>();
  #files = new Map<string, Buffer>();
  #reads: Reads = [];
  #truth = new Map<string, unknown>();
  #spans: ItemSpan[] = [];
  #blobs: string[] = [];
  #backup: Uint8Array = new Uint8Array();

  private constructor(place: Place) {
    this.#place = place;
  }

  static async make(place: Place): Promise<SmallStore> {
    const small = new SmallStore(place);
    await small.#make();
    return small;
  }

  /** The files of the store while no process has it open. */
  get files(): ReadonlyMap<string, Buffer> {
    return this.#files;
  }

  /** How many different kinds of damage the store reported. */
  get kinds(): number {
    return this.#seen.size;
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  /**
   * Tries one kind of damage. Everything that the store itself gives is read each time. All the rest follows from that: it
   * is looked at once for each different thing that the store gave.
   */
  async try(wound: Wound): Promise<Offender[]> {
    const offenders: Offender[] = [];
    const accuse = (fault: Fault, what: string): unknown =>
      offenders.push({ fault, what: `${wound.file} ${wound.what}: ${what}` });
    const attempt = async (work: () => Promise<unknown>): Promise<void> => {
      this.#restore(wound);
      await work().catch((error: unknown) => accuse("crash", String(error)));
    };
    await attempt(async () => {
      const given = await this.#dump();
      if (this.#seen.has(given)) return;
      this.#seen.add(given);
      await attempt(() => this.#look(accuse));
      await attempt(() => this.#repair(accuse));
    });
    return offenders;
  }

  async #make(): Promise<void> {
    const url = this.#place.url(this.folder);
    const sp = await Savepoint.open(url);
    this.#reads = readsOf(await fill(sp));
    this.#backup = await sp.export({}).bytes();
    await sp.close();
    this.#files = filesIn(this.folder);
    const again = await Savepoint.open(url);
    for (const [name, read] of this.#reads) this.#truth.set(name, await read(again));
    await again.close();
    const store = await openStore(url);
    for (const tape of await store.tapes(EVERYTHING)) this.#spans.push({ tape, start: 0, count: 8 });
    this.#blobs = await store.blobs({ after: "", limit: 8 });
    await store.close();
  }

  #restore(wound: Wound): void {
    rmSync(this.folder, { recursive: true, force: true });
    mkdirSync(this.folder);
    for (const [name, bytes] of this.#files) {
      const path = join(this.folder, name);
      const content = name === wound.file ? wound.bytes : bytes;
      if (name.includes("/")) mkdirSync(dirname(path), { recursive: true });
      if (content) writeFileSync(path, content);
    }
  }

  /** All data that the store returns, as one string, without the positions of damage in files. */
  async #dump(): Promise<string> {
    const opened = await orCode(() => openStore(this.#place.url(this.folder), { onBackgroundFailure: () => {} }));
    if ("code" in opened) return opened.code;
    const store = opened.value;
    const given = [
      await orCode(() => store.list(EVERYTHING, { limit: 1_000 })),
      await orCode(() => store.tapes(EVERYTHING)),
      await orCode(() => store.items(this.#spans)),
      ...(await Promise.all(this.#blobs.map((hash) => orCode(() => store.blob(hash))))),
      await orCode(() => store.blobs({ after: "", limit: 100 })),
      await orCode(async () => (await store.check?.())?.map(({ reason }) => reason.replace(/[0-9]+/g, "?"))),
    ];
    const closed = await orCode(() => store.close());
    return show([...given, closed]);
  }

  /** @returns `undefined` if it says that it is no good */
  async #open(told: { count: number }): Promise<Savepoint | undefined> {
    const tell = (): void => void told.count++;
    const on = { damage: tell, backgroundFailure: tell };
    const opened = await orCode(() => Savepoint.open(this.#place.url(this.folder), { on }));
    return "code" in opened ? undefined : opened.value;
  }

  async #look(accuse: (fault: Fault, what: string) => unknown): Promise<void> {
    const told = { count: 0 };
    const sp = await this.#open(told);
    if (!sp) return;
    const verified = await orCode(() => sp.verify({ deep: true }));
    const reported = told.count > 0 || "code" in verified || !verified.value.ok;
    let changed = false;
    for (const [name, read] of this.#reads) {
      const before = told.count;
      const found = await orCode(() => read(sp));
      const truth = this.#truth.get(name);
      if (!("code" in found) && show(found.value) === show(truth)) continue;
      changed = true;
      if ("code" in found) continue;
      if (found.value === undefined) accuse("undefined", `${name} is undefined`);
      else if (!this.#isRight(name, found.value)) accuse("wrong", `${name} is ${show(found.value)}`);
      else if (told.count === before) accuse("untold", `${name} lacks something: ${show(found.value)}`);
    }
    if (changed && !reported) accuse("unreported", "verify says that all is well");
    const closed = await orCode(() => sp.close());
    if ("code" in closed) accuse("crash", `closing fails with ${closed.code}`);
  }

  /** Whether the essential data is correct, or is that of an older checkpoint and reported as such. */
  #isRight(name: string, found: unknown): boolean {
    const { id, skipped = [] } = found as Partial<Checkpoint>;
    const truth = this.#truth.get(skipped.length > 0 ? `load ${id}` : name);
    return truth !== undefined && core(truth) === core(found);
  }

  async #repair(accuse: (fault: Fault, what: string) => unknown): Promise<void> {
    const sp = await this.#open({ count: 0 });
    if (!sp) return;
    const repaired = await orCode(() => sp.repair({ from: this.#backup }));
    const whole = !("code" in repaired) && repaired.value.ok;
    for (const [name, read] of whole ? this.#reads : []) {
      const found = await orCode(() => read(sp));
      const what = "code" in found ? found.code : show(found.value);
      if (what !== show(this.#truth.get(name))) accuse("repair", `after it ${name} is ${what}`);
    }
    await orCode(() => sp.close());
  }
}

async function orCode<T>(work: () => Promise<T>): Promise<{ readonly value: T } | { readonly code: string }> {
  try {
    return { value: await work() };
  } catch (error) {
    if (isSavepointError(error)) return { code: error.code };
    throw error;
  }
}

/** Bit flips, one in every `every` bytes, each time another bit of the byte. */
export function* flips(file: string, bytes: Buffer, every: number): Generator<Wound> {
  for (let at = 0; at < bytes.length; at += every) {
    const bit = (at / every) % 8;
    const damaged = Buffer.from(bytes);
    damaged[at] = (damaged[at] as number) ^ (1 << bit);
    yield { file, what: `with bit ${bit} of byte ${at} flipped`, bytes: damaged };
  }
}

/** Lengths that a file is cut to, from one on. */
export function* truncations(file: string, bytes: Buffer, every: number, from = 0): Generator<Wound> {
  for (let length = from; length < bytes.length; length += every) {
    yield { file, what: `cut to ${length} bytes`, bytes: bytes.subarray(0, length) };
  }
}

/** Lengths around the ends of lines. */
export function* truncationsAtLines(file: string, bytes: Buffer): Generator<Wound> {
  for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, end + 1)) {
    for (const length of [end - 1, end, end + 1, end + 2]) {
      if (length < bytes.length) yield { file, what: `cut to ${length} bytes`, bytes: bytes.subarray(0, length) };
    }
  }
}
