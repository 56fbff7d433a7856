// What the demo kills: an agent that works off orders. It charges, writes an invoice and sends two mails for each; all of
// it is real, in files. Every effect notes in evidence.log when its function is entered. Savepoint never sees that file.
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

    // A scripted model. If it is interrupted it is asked again, which is what model calls do unless told otherwise.
    const think = `think ${n}`;
    const plan = await timed(think, () =>
      run.llm(() => perform(think, "", 12, () => (n > run.state.orders ? "no orders left" : `work off order ${n}`)), {
        name: think,
      }),
    );
    if (plan === "no orders left") return run.complete(`${run.state.done.length} orders`);

    // Nothing tells whether a charge that was interrupted went through: by default, a person is asked.
    const charge = { id: `charge ${n}`, name: "charge", arguments: { order: n } };
    const charged = await timed(charge.id, () =>
      run.tool(charge, ({ idempotencyKey }) =>
        perform(charge.id, idempotencyKey, 16, () => {
          appendFileSync(at("ledger.txt"), `order ${n}\n`);
          return `charged ${n}`;
        }),
      ),
    );

    // One can look whether an invoice is there; and a mail with the same key is not sent twice. These three are parallel.
    const invoice = { id: `invoice ${n}`, name: "invoice", arguments: { order: n } };
    const file = at("invoices", `${n}.txt`);
    const results = await Promise.all([
      timed(invoice.id, () =>
        run.tool(
          invoice,
          ({ idempotencyKey }) =>
            perform(invoice.id, idempotencyKey, 20, () => {
              writeWhole(file, `invoice for order ${n}\n`);
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
                else writeWhole(sent, mail.id);
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
 * An effect: takes a while, and touches the world in the middle of it.
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

/** When the functions of effects were entered and left, in this process. @type {Map<string, number>} */
const entered = new Map();
/** @type {Map<string, number>} */
const left = new Map();

/**
 * Notes what an effect took beside its function: what Savepoint costs.
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
  // One write of one line: a process that is killed has written it, or not.
  appendFileSync(at("evidence.log"), text);
  process.send?.(line);
}

/** A file that is there is whole, whenever the process is killed. @param {string} path @param {string} text */
function writeWhole(path, text) {
  writeFileSync(`${path}.new`, text);
  renameSync(`${path}.new`, path);
}

// On some systems one cannot tell that a process is dead: its work is then free when its lease is over.
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
