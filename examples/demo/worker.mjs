// The process that the demo kills: an agent that processes orders. For each order it charges, writes an invoice and sends two
// mails, all of them in files. Every effect logs in evidence.log that its function was entered. Savepoint does not use that file.
import { appendFileSync, existsSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { defineAgent, isSavepointError, Savepoint } from "savepoint";

const [folder = ".", orders = "1"] = process.argv.slice(2);
const at = (/** @type {string[]} */ ...names) => join(folder, ...names);

const clerk = defineAgent({
  name: "clerk",
  initial: (/** @type {{ orders: number }} */ input) => ({
    orders: input.orders,
    done: /** @type {string[]} */ ([]),
  }),
  async step(run) {
    note({ what: "step" });
    const n = run.state.done.length + 1;

    // A scripted model. An interrupted model call is repeated, which is the default for models.
    const think = `think ${n}`;
    const plan = await timed(think, () =>
      run.llm(() => perform(think, "", 12, () => (n > run.state.orders ? "no orders left" : `process order ${n}`)), {
        name: think,
      }),
    );
    if (plan === "no orders left") return run.complete(`${run.state.done.length} orders`);

    // Nothing shows whether an interrupted charge took effect. By default, the run asks a person.
    const charge = { id: `charge ${n}`, name: "charge", arguments: { order: n } };
    const charged = await timed(charge.id, () =>
      run.tool(charge, ({ idempotencyKey }) =>
        perform(charge.id, idempotencyKey, 16, () => {
          appendFileSync(at("ledger.txt"), `order ${n}\n`);
          return `charged ${n}`;
        }),
      ),
    );

    // An invoice can be verified, and a mail with the same key is not sent twice. These three effects run in parallel.
    const invoice = { id: `invoice ${n}`, name: "invoice", arguments: { order: n } };
    const file = at("invoices", `${n}.txt`);
    const results = await Promise.all([
      timed(invoice.id, () =>
        run.tool(
          invoice,
          ({ idempotencyKey }) =>
            perform(invoice.id, idempotencyKey, 20, () => {
              writeAtomically(file, `invoice for order ${n}\n`);
              return `invoiced ${n}`;
            }),
          {
            onUnknown: "verify",
            verify: () => {
              const found = existsSync(file);
              note({ what: "look", effect: invoice.id, found });
              return found ? { happened: true, result: `invoiced ${n}` } : { happened: false };
            },
          },
        ),
      ),
      ...["a", "b"].map((to, index) => {
        const mail = { id: `mail ${n}${to}`, name: "mail", arguments: { order: n, to } };
        return timed(mail.id, () =>
          run.tool(
            mail,
            ({ idempotencyKey }) =>
              perform(mail.id, idempotencyKey, 14 + 10 * index, () => {
                const sent = at("outbox", `${idempotencyKey}.txt`);
                if (existsSync(sent)) note({ what: "known", effect: mail.id });
                else writeAtomically(sent, mail.id);
                return `mailed ${n}${to}`;
              }),
            { onUnknown: "retry" },
          ),
        );
      }),
    ]);
    run.state.done.push([charged, ...results].join(", "));
    note({ what: "stepDone" });
  },
});

/**
 * Performs an effect: it takes a while, and its side effect happens in the middle.
 *
 * @template T
 * @param {string} effect @param {string} key @param {number} milliseconds @param {() => T} act
 */
async function perform(effect, key, milliseconds, act) {
  entered.set(effect, performance.now());
  note({ what: "begin", effect, key });
  await pause(milliseconds / 2);
  const result = act();
  await pause(milliseconds / 2);
  left.set(effect, performance.now());
  return result;
}

/** When the functions of effects were entered in this process, and below, when they returned. @type {Map<string, number>} */
const entered = new Map();
/** @type {Map<string, number>} */
const left = new Map();

/**
 * Logs the time of an effect without its own function: the overhead of Savepoint.
 *
 * @template T
 * @param {string} effect @param {() => Promise<T>} call
 */
async function timed(effect, call) {
  const called = performance.now();
  const result = await call();
  const [from, to] = [entered.get(effect), left.get(effect)];
  if (from !== undefined && to !== undefined) {
    note({ what: "got", effect, cost: from - called + (performance.now() - to) });
  }
  return result;
}

/** @param {Record<string, unknown>} line */
function note(line) {
  const text = `${JSON.stringify({ at: Date.now(), ...line })}\n`;
  // A single write of one line: a killed process has written it completely or not at all.
  appendFileSync(at("evidence.log"), text);
  process.send?.(line);
}

/** Writes a file atomically: it is complete or absent, whenever the process is killed. @param {string} path @param {string} text */
function writeAtomically(path, text) {
  writeFileSync(`${path}.new`, text);
  renameSync(`${path}.new`, path);
}

// Some systems cannot detect that a process is dead. Its session can then be claimed when its lease expires.
const sp = await Savepoint.open(`sqlite:${at("demo.db")}`, { lease: "1s" });
for (;;) {
  try {
    const { status, question } = await sp.run(clerk, { session: "orders", input: { orders: Number(orders) } });
    note({ what: status, ...(question && { effect: question.call?.id, text: question.text }) });
    break;
  } catch (error) {
    if (!isSavepointError(error, "ALREADY_RUNNING")) throw error;
    await pause(100);
  }
}
await sp.close();
process.disconnect?.();
