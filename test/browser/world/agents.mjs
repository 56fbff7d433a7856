// Three agents with scripted models: a shop that refunds orders, one that edits code, and one that researches.
import { defineAgent, message } from "savepoint";
import { pass } from "./clock.mjs";

/** @import { Message, Run, ToolCall } from "savepoint" */

/**
 * A reply of a scripted model, and how long it takes.
 * @typedef {{ text: string, calls?: readonly ToolCall[], ms?: number, tokens?: number }} Reply
 * @typedef {{ messages: Message[] }} Chat
 */

const DOLLARS_PER_TOKEN = 0.000_006;

/** @param {Run<any>} run @param {string} model @param {Reply} reply */
async function ask(run, model, { text, calls = [], ms = 1400, tokens = 900 }) {
  return run.llm(
    async () => {
      await pass(ms);
      return message.assistant(text, calls, { tokens });
    },
    { name: model, usage: () => ({ tokens, cost: tokens * DOLLARS_PER_TOKEN }) },
  );
}

/** @typedef {{ order: string, customer: string, amount: number, reason: string, behaviour?: "approve" | "stuck" | "declined" | "hold" }} RefundInput */

/** What happens in the tool that is called while the process is killed. @type {{ onRefund: () => Promise<void> }} */
export const hooks = { onRefund: async () => {} };

/** The input of the run that is killed. @type {RefundInput} */
export const KILLED = {
  order: "1044",
  customer: "Grace Okafor",
  amount: 129.5,
  reason: "The bench arrived with a broken leg. I'd like my money back for order 1044.",
};

/** Refunds an order: looks it up, checks the policy, asks a person above the limit, pays and sends a mail. */
export const refunds = defineAgent({
  name: "refunds",
  /** @param {RefundInput} input */
  initial: (input) => ({
    order: { id: input.order, customer: input.customer, amount: input.amount, currency: "USD", status: "delivered" },
    policy: { limit: 250, windowDays: 30 },
    input,
    phase: 0,
    messages: [
      message.system(
        "You are the refund agent of Harbor & Pine, a shop for outdoor furniture. Check the order and the policy before you refund. Refunds above $250 need the approval of a person.",
      ),
      message.user(input.reason),
    ],
  }),
  strategy: "everyStep",
  async step(run) {
    const { state } = run;
    const { order, input } = state;
    const phase = state.phase++;
    if (phase === 0) {
      const calls = [
        { id: `${order.id}-a`, name: "lookup_order", arguments: { order: order.id } },
        { id: `${order.id}-b`, name: "check_policy", arguments: { order: order.id, amount: order.amount } },
      ];
      const reply = await ask(run, "sonnet-large", {
        text: "I'll look up the order and check our refund policy.",
        calls,
        tokens: 840,
      });
      state.messages.push(reply);
      const results = await Promise.all([
        run.tool(/** @type {ToolCall} */ (calls[0]), async () => {
          await pass(320);
          return { id: order.id, customer: order.customer, total: order.amount, items: 3, deliveredDaysAgo: 9 };
        }),
        run.tool(/** @type {ToolCall} */ (calls[1]), async () => {
          await pass(140);
          return { eligible: true, needsApproval: order.amount > 250, limit: 250 };
        }),
      ]);
      for (const [index, call] of calls.entries()) state.messages.push(message.toolResult(call.id, results[index]));
      return undefined;
    }
    if (phase === 1 && order.amount > 250) {
      const approved = await run.ask({
        text: `Refund $${order.amount.toFixed(2)} for order ${order.id} to ${order.customer}? It is above the limit of $250.`,
        data: { order: order.id, amount: order.amount, options: ["approve", "decline"] },
      });
      state.messages.push(
        message.user(approved === "approve" ? "Approved by a person." : "A person has declined the refund."),
      );
      if (approved !== "approve") return run.fail("A person has declined the refund.");
      return undefined;
    }
    if (phase <= 2 && !state.messages.some((each) => each.toolCalls?.some(({ name }) => name === "issue_refund"))) {
      const call = {
        id: `${order.id}-c`,
        name: "issue_refund",
        arguments: { order: order.id, amount: order.amount, method: "card" },
      };
      state.messages.push(
        await ask(run, "sonnet-large", {
          text: "The order is eligible. I'm issuing the refund.",
          calls: [call],
          tokens: 1260,
        }),
      );
      const result = await run.tool(call, async ({ idempotencyKey }) => {
        await pass(900);
        await hooks.onRefund();
        if (input.behaviour === "declined")
          throw new TypeError("Cannot read properties of undefined (reading 'card_token')");
        return { refund: `re_${idempotencyKey.slice(0, 8)}`, amount: order.amount, state: "succeeded" };
      });
      order.status = "refunded";
      state.messages.push(message.toolResult(call.id, result));
      return undefined;
    }
    if (input.behaviour === "hold") {
      await run.sleep("2d");
      return undefined;
    }
    if (!state.messages.some((each) => each.toolCalls?.some(({ name }) => name === "send_mail"))) {
      const call = {
        id: `${order.id}-d`,
        name: "send_mail",
        arguments: {
          to: `${order.customer.split(" ")[0]?.toLowerCase()}@example.com`,
          subject: `Your refund for order ${order.id}`,
        },
      };
      state.messages.push(
        await ask(run, "sonnet-large", {
          text: "The refund went through. I'm telling the customer.",
          calls: [call],
          tokens: 1410,
          ms: 900,
        }),
      );
      state.messages.push(
        message.toolResult(
          call.id,
          await run.tool(call, async () => {
            await pass(410);
            return "250 OK queued as 7F21";
          }),
        ),
      );
      return undefined;
    }
    state.messages.push(
      await ask(run, "sonnet-large", {
        text: `Done. ${order.customer} gets $${order.amount.toFixed(2)} back on their card within three to five working days, and has received a confirmation by mail.`,
        tokens: 1490,
      }),
    );
    return run.complete({ order: order.id, refunded: order.amount });
  },
});

const FILES = {
  "src/auth/session.ts": `export async function validate(token: string): Promise<Session | undefined> {\n  const session = await store.get(token);\n  if (!session) return undefined;\n  if (session.expiresAt < Date.now()) return undefined;\n  return session;\n}`,
  "test/auth/session.test.ts": `it("refuses a session that expires in this millisecond", async () => {\n  const session = await create({ expiresAt: now });\n  expect(await validate(session.token)).toBeUndefined();\n});`,
};

/** @type {readonly (Reply & { results?: readonly unknown[], fails?: number })[]} */
const CODING = [
  {
    text: "I'll look at the failing test first.",
    calls: [{ id: "c1", name: "run_tests", arguments: { filter: "auth" } }],
    results: [
      "1 failed, 41 passed\n\nFAIL test/auth/session.test.ts > refuses a session that expires in this millisecond\n  expected { token: 's1' } to be undefined",
    ],
    tokens: 2100,
    ms: 2300,
  },
  {
    text: "Let me read the code and the test together.",
    calls: [
      { id: "c2", name: "read_file", arguments: { path: "src/auth/session.ts" } },
      { id: "c3", name: "read_file", arguments: { path: "test/auth/session.test.ts" } },
    ],
    results: [FILES["src/auth/session.ts"], FILES["test/auth/session.test.ts"]],
    tokens: 3240,
    ms: 1800,
  },
  {
    text: "The comparison lets a session live one millisecond too long: it must be <=.",
    calls: [
      {
        id: "c4",
        name: "edit_file",
        arguments: {
          path: "src/auth/session.ts",
          replace: "session.expiresAt < Date.now()",
          with: "session.expiresAt <= Date.now()",
        },
      },
    ],
    results: ["1 replacement"],
    tokens: 3710,
    ms: 3100,
  },
  {
    text: "Running the tests again.",
    calls: [{ id: "c5", name: "run_tests", arguments: { filter: "auth" } }],
    results: ["42 passed"],
    tokens: 3980,
    ms: 900,
    fails: 1,
  },
  {
    text: "All 42 tests pass. I'll check types and style before the commit.",
    calls: [
      { id: "c6", name: "run_command", arguments: { command: "npm run check" } },
      { id: "c7", name: "run_command", arguments: { command: "npm run lint" } },
    ],
    results: ["types: no errors", "lint: 0 problems"],
    tokens: 4300,
    ms: 1500,
  },
  {
    text: "",
    calls: [
      {
        id: "c8",
        name: "git_commit",
        arguments: { message: "fix(auth): refuse sessions in the millisecond they expire" },
      },
    ],
    results: ["[main 8f1c2d4] 1 file changed, 1 insertion(+), 1 deletion(-)"],
    tokens: 4410,
    ms: 700,
  },
];

/** Fixes a bug in a repository. One of its tools fails once and is retried. */
export const coder = defineAgent({
  name: "coder",
  /** @param {{ task: string }} input */
  initial: (input) => ({
    task: input.task,
    repository: { name: "harbor-api", branch: "main", dirty: /** @type {string[]} */ ([]) },
    plan: ["reproduce", "read", "fix", "test", "commit"],
    messages: [
      message.system("You are a careful software engineer. Change as little as possible."),
      message.user(input.task),
    ],
  }),
  async step(run) {
    const { state } = run;
    const script = CODING[run.step - 1];
    if (!script) {
      state.messages.push(
        await ask(run, "opus-code", {
          text: "Fixed: a session is now refused in the same millisecond in which it expires. The change is one character, with a test that covers it.",
          tokens: 4520,
        }),
      );
      return run.complete({ commit: "8f1c2d4" });
    }
    state.messages.push(await ask(run, "opus-code", script));
    let failures = script.fails ?? 0;
    const calls = script.calls ?? [];
    const results = await Promise.all(
      calls.map((call, index) =>
        run.tool(
          call,
          async () => {
            await pass(600 + 500 * index);
            if (failures-- > 0) throw Object.assign(new Error("connect ETIMEDOUT 10.0.3.7:443"), { code: "ETIMEDOUT" });
            return script.results?.[index];
          },
          { onUnknown: "retry", retry: { attempts: 3, delay: 10 } },
        ),
      ),
    );
    for (const [index, call] of calls.entries()) state.messages.push(message.toolResult(call.id, results[index]));
    if (run.step === 3) state.repository.dirty.push("src/auth/session.ts");
    return undefined;
  },
});

const QUERIES = [
  "offshore wind capacity 2030 Europe",
  "grid connection queue length Germany",
  "levelised cost offshore wind 2026",
];

/** Collects sources in parallel, sleeps until a report is published, and writes a summary. */
export const researcher = defineAgent({
  name: "researcher",
  /** @param {{ question: string, wait?: boolean }} input */
  initial: (input) => ({
    question: input.question,
    wait: input.wait ?? false,
    sources: /** @type {{ title: string, url: string, words: number }[]} */ ([]),
    notes: /** @type {Record<string, string>} */ ({}),
    messages: [message.user(input.question)],
  }),
  strategy: "everyStep",
  async step(run) {
    const { state } = run;
    if (run.step === 1) {
      const calls = QUERIES.map((query, index) => ({
        id: `q${index}`,
        name: "web_search",
        arguments: { query, limit: 5 },
      }));
      state.messages.push(
        await ask(run, "sonnet-large", { text: "I'll start with three searches.", calls, tokens: 610 }),
      );
      const results = await Promise.all(
        calls.map((call, index) =>
          run.tool(call, async () => {
            await pass(500 + index * 260);
            const title = `${call.arguments.query}: an overview`;
            return { results: [{ title, url: `https://example.org/${index + 1}`, words: 1800 + 340 * index }] };
          }),
        ),
      );
      for (const [index, call] of calls.entries()) {
        state.messages.push(message.toolResult(call.id, results[index]));
        const first = results[index]?.results[0];
        if (first) state.sources.push(first);
      }
      return undefined;
    }
    if (run.step === 2) {
      state.messages.push(
        await ask(run, "sonnet-large", {
          text: "The agency publishes its yearly figures tomorrow morning. I'll wait for them.",
          tokens: 2200,
          ms: 2600,
        }),
      );
      if (state.wait) await run.sleep("14h");
      return undefined;
    }
    state.notes["capacity"] = "60 GW by 2030 is behind schedule: 21 GW were connected by the end of 2025.";
    state.messages.push(
      await ask(run, "sonnet-large", {
        text: "Europe is behind its target for 2030.\n\n1. 21 GW are connected; 60 GW are planned.\n2. The queue for grid connections is the main reason: seven years in the German Bight.\n3. Costs have risen by a fifth since 2021, and fall again since 2025.",
        tokens: 3900,
        ms: 5200,
      }),
    );
    return run.complete("Europe is behind its target for 2030.");
  },
});
