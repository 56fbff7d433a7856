// A store made by real runs: what the browser tests look at, and what the screenshots show.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { message, Savepoint } from "savepoint";
import { coder, KILLED, refunds, researcher } from "./agents.mjs";
import { installClock, setAge } from "./clock.mjs";

/** @import { RefundInput } from "./agents.mjs" */

const here = dirname(fileURLToPath(import.meta.url));
const [MINUTE, HOUR, DAY] = [60_000, 3_600_000, 86_400_000];

/** Events that would be printed. */
export const QUIET = {
  damage: () => {},
  backgroundFailure: () => {},
  crash: () => {},
  runError: () => {},
};

const CUSTOMERS = [
  "Ada Lindqvist",
  "Tomás Rivera",
  "Mei Tanaka",
  "Noah Becker",
  "Priya Shah",
  "Elif Demir",
  "Jonas Weber",
  "Aino Virtanen",
];
const REASONS = [
  "The parasol does not open. Please refund order",
  "Two of the four chairs have scratches. I'd like a refund for order",
  "The table is smaller than in the picture. Refund for order",
  "It came a week late, and I have bought another one. Please refund order",
];

/** @param {number} number @param {Partial<RefundInput>} more @returns {RefundInput} */
function refundOf(number, more = {}) {
  const customer = CUSTOMERS[number % CUSTOMERS.length] ?? "";
  const amount = more.amount ?? 40 + ((number * 37) % 190) + 0.5;
  return { order: String(number), customer, amount, reason: `${REASONS[number % REASONS.length]} ${number}.`, ...more };
}

/**
 * Fills a store. Sessions that are worth a look: `order-1043` waits for an approval, `order-1044` has an unknown outcome,
 * `order-1045` has failed, `order-1046` was rewound and forked, `order-1047` sleeps, `fix-login` edits code, `wind-report` researches.
 *
 * @param {string} url the URL of a store that other processes can open
 * @param {{ history?: number, backups?: string }} [options] `history`: how many refunds of the last weeks; `backups`: a folder
 */
export async function buildWorld(url, { history = 36, backups } = {}) {
  const restoreClock = installClock();
  const sp = await Savepoint.open(url, { on: QUIET });
  try {
    for (let index = 0; index < history; index++) {
      const number = 1000 + index;
      setAge(21 * DAY - (index / history) * 20.5 * DAY);
      await sp.run(refunds, { session: `order-${number}`, input: refundOf(number) });
    }
    await buildAgentsAndConversations(sp);
    await buildCode(sp);
    await buildResearch(sp);
    await buildRefunds(sp);
    if (backups !== undefined) {
      setAge(26 * HOUR);
      await sp.backup({ to: backups });
      setAge(2 * HOUR);
      await sp.backup({ to: backups });
    }
  } finally {
    restoreClock();
    await sp.close();
  }
  await kill(url, "order-1044");
  await enqueue(url);
}

/** @param {Savepoint} sp */
async function buildRefunds(sp) {
  setAge(5 * HOUR);
  await sp.run(refunds, { session: "order-1042", input: refundOf(1042, { customer: "Ada Lindqvist" }) });
  setAge(3 * HOUR);
  await sp.run(refunds, { session: "order-1047", input: refundOf(1047, { behaviour: "hold" }) });
  setAge(2.4 * HOUR);
  await sp.run(refunds, { session: "order-1045", input: refundOf(1045, { behaviour: "declined" }) });
  setAge(100 * MINUTE);
  await buildForks(sp);
  setAge(42 * MINUTE);
  await sp.run(refunds, {
    session: "order-1043",
    input: refundOf(1043, {
      customer: "Priya Shah",
      amount: 480,
      reason: "The whole lounge set has rust after one winter. I want my money back for order 1043.",
    }),
  });
}

/** A session with a label, a pin, a rewind and two forks. @param {Savepoint} sp */
async function buildForks(sp) {
  const input = refundOf(1046, { customer: "Mei Tanaka" });
  await sp.run(refunds, { session: "order-1046", input });
  const session = sp.session("order-1046");
  const [, , decided] = [...(await session.history().all())].reverse();
  if (!decided) throw new Error("The run of order-1046 has too few checkpoints.");
  await session.label(decided.id, "refund issued");
  await session.pin(decided.id, true);
  const { state } = /** @type {{ state: any }} */ (await session.load(decided.id));
  const fork = await session.fork(decided.id, {
    branch: "store-credit",
    state: { ...state, order: { ...state.order, amount: 65 }, policy: { ...state.policy, method: "store credit" } },
    label: "half as store credit",
  });
  await sp.run(refunds, { session: "order-1046", branch: fork.branch, input });
  await session.rewind(decided.id);
  await sp.run(refunds, { session: "order-1046", input, resume: true });
  await session.fork(decided.id, { branch: "without-mail" });
}

/** @param {Savepoint} sp */
async function buildCode(sp) {
  setAge(20 * HOUR);
  await sp.run(coder, {
    session: "fix-login",
    input: { task: "A session that expires in this very millisecond is still accepted. Find out why, and fix it." },
  });
  const session = sp.session("fix-login");
  const history = await session.history().all();
  const tested = history[2];
  if (tested) await session.label(tested.id, "tests pass");
}

/** @param {Savepoint} sp */
async function buildResearch(sp) {
  setAge(30 * HOUR);
  await sp.run(researcher, {
    session: "wind-report",
    input: { question: "Is Europe on its way to 60 GW of offshore wind by 2030?", wait: true },
  });
  setAge(15 * HOUR);
  await sp.run(researcher, {
    session: "wind-report",
    input: { question: "Is Europe on its way to 60 GW of offshore wind by 2030?", wait: true },
  });
  setAge(8 * HOUR);
  await sp.run(researcher, {
    session: "heat-pumps",
    input: { question: "How fast are heat pumps replacing gas boilers?" },
  });
}

/** @param {Savepoint} sp */
async function buildAgentsAndConversations(sp) {
  setAge(9 * DAY);
  const support = {
    id: "support",
    name: "Support",
    type: "chat",
    systemPrompt: "You help the customers of Harbor & Pine. Be brief and friendly. Never promise a delivery date.",
    capabilities: ["orders", "refunds", "mail"],
    config: { model: "sonnet-large", temperature: 0.2, tools: ["lookup_order", "send_mail"] },
    state: { openTickets: 3, shift: { from: "08:00", to: "18:00" } },
  };
  await sp.agents.save(support);
  await sp.conversations.create({
    id: "chat-ada",
    agent: "support",
    title: "Where is my parasol?",
    tags: ["delivery"],
  });
  await sp.conversations.append("chat-ada", [
    message.user("Hello! My parasol should have been here on Monday. Order 1042."),
    message.assistant(
      "Hello Ada! It left our warehouse on Friday and is with the carrier. I'll write to you as soon as it moves.",
    ),
    message.user("Thank you. If it isn't here by Friday I'd like a refund."),
  ]);
  await sp.conversations.create({
    id: "chat-tomas",
    agent: "support",
    title: "Colors of the lounge set",
    tags: ["product"],
  });
  await sp.conversations.append("chat-tomas", [
    message.user("Is the lounge set also available in dark green?"),
    message.assistant("It comes in sand, slate and dark green. Dark green is back in two weeks."),
  ]);
  await sp.checkpoints.create({ agent: "support", label: "before the new prompt", pinned: true });
  setAge(2 * DAY);
  await sp.agents.save({
    ...support,
    systemPrompt: `${support.systemPrompt} Offer store credit first.`,
    state: { openTickets: 7, shift: { from: "07:00", to: "19:00" } },
  });
  await sp.conversations.append("chat-ada", [
    message.user("It still isn't here. Please refund me."),
    message.assistant("I'm sorry, Ada. I've passed this on to refunds."),
  ]);
  await sp.conversations.create({ id: "chat-old", agent: "support", title: "Opening hours" });
  await sp.conversations.append("chat-old", [message.user("Are you open on Sunday?")]);
  await sp.conversations.archive("chat-old");
}

/** Queues work that no worker takes. @param {string} url */
async function enqueue(url) {
  const restoreClock = installClock();
  const sp = await Savepoint.open(url, { on: QUIET });
  setAge(4 * MINUTE);
  await sp.enqueue(refunds, { session: "order-1048", input: refundOf(1048) });
  await sp.enqueue(refunds, { session: "order-1049", input: refundOf(1049), priority: 7 });
  restoreClock();
  await sp.close();
}

/** Runs a session in a process that is killed inside a tool. Then another process finds that it may have happened. @param {string} url @param {string} session */
async function kill(url, session) {
  const child = spawn(process.execPath, [join(here, "killed.mjs"), url, session], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(/** @type {import("node:stream").Readable} */ (child.stdout), "data");
  const closed = once(child, "close");
  child.kill("SIGKILL");
  await closed;
  const sp = await Savepoint.open(url, { on: QUIET });
  const { status } = await sp.run(refunds, { session, input: KILLED });
  if (status !== "waiting") throw new Error(`The killed run must wait for an answer, but is ${status}.`);
  await sp.close();
}
