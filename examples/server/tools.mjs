// The tools of the agent, and for each what happens if the server is killed while it runs.
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { tool } from "ai";
import { idempotencyKeyOf } from "savepoint/ai";
import { z } from "zod";

export const tools = {
  findOrder: tool({
    description: "Finds an order by its number.",
    inputSchema: z.object({ order: z.string() }),
    execute: async ({ order }) => ({ order, item: "umbrella", euros: 12 }),
  }),
  refund: tool({
    description: "Pays the price of an order back.",
    inputSchema: z.object({ order: z.string() }),
    execute: async ({ order }, options) => pay(order, String(idempotencyKeyOf(options))),
  }),
};

/**
 * Reading can be repeated, and the payment service makes one refund per idempotency key. A tool that is not listed here asks:
 * the chat waits until POST /api/chat/:id/answer reports whether the interrupted call took effect.
 *
 * @type {import("savepoint/ai").ToolPolicies<typeof tools>}
 */
export const policies = {
  findOrder: { onUnknown: "retry" },
  refund: { onUnknown: "retry" },
};

/** A stand-in for a payment service: slow, and it makes one refund per idempotency key. @param {string} order @param {string} key */
async function pay(order, key) {
  const isPaid = existsSync("refunds.log") && readFileSync("refunds.log", "utf8").includes(key);
  if (!isPaid) appendFileSync("refunds.log", `refunded order ${order}, key ${key}\n`);
  await pause(Number(process.env["PAYMENT_MS"] ?? 2000));
  return { refunded: order };
}
