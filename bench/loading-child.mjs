// Loads the latest state of a thread in a process of its own: see loading.mjs.
import { Savepoint } from "savepoint";
import { input } from "./lib/child.mjs";
import { median } from "./lib/measure.mjs";
import { loadSqliteSaver } from "./lib/peers.mjs";

const { who, file, count } = /** @type {{ who: "savepoint" | "peer"; file: string; count: number }} */ (input());
const open = who === "savepoint" ? savepoint : await peer();
const first = await measure();
const warm = [];
for (let round = 0; round < 15; round++) warm.push(await measure());
console.log(
  JSON.stringify({
    open: first.open,
    first: first.load,
    warmOpen: median(warm.map((each) => each.open)),
    warm: median(warm.map((each) => each.load)),
  }),
);

async function measure() {
  const start = performance.now();
  const { load, close } = await open();
  const opened = performance.now();
  const length = await load();
  const loaded = performance.now();
  if (length !== count) throw new Error(`${length} messages were loaded instead of ${count}`);
  await close();
  return { open: opened - start, load: loaded - opened };
}

async function savepoint() {
  const sp = await Savepoint.open(`sqlite:${file}`, { durability: "process" });
  return {
    load: async () => {
      const latest = await sp.session("thread").latest();
      return latest ? /** @type {{ messages: unknown[] }} */ (latest.state).messages.length : 0;
    },
    close: () => sp.close(),
  };
}

async function peer() {
  const SqliteSaver = await loadSqliteSaver();
  return async () => {
    const saver = SqliteSaver.fromConnString(file);
    saver.setup();
    return {
      load: async () => {
        const tuple = await saver.getTuple({ configurable: { thread_id: "thread", checkpoint_ns: "" } });
        return tuple.checkpoint.channel_values.messages.length;
      },
      close: async () => saver.db.close(),
    };
  };
}
