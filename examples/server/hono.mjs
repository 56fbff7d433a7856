// The chat server with Hono.
//
//   node examples/server/hono.mjs
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { Chats } from "./chats.mjs";

const chats = await Chats.open();
const app = new Hono();
app.post("/api/chat", async (c) => chats.post(await c.req.json().catch(() => ({}))));
app.get("/api/chat/:id", (c) => chats.show(c.req.param("id")));
app.get("/api/chat/:id/stream", (c) => chats.follow(c.req.param("id")));
app.post("/api/chat/:id/stop", (c) => chats.stop(c.req.param("id")));
app.post("/api/chat/:id/answer", async (c) => chats.answer(c.req.param("id"), await c.req.json().catch(() => ({}))));

const port = Number(process.env["PORT"] ?? 3000);
const server = serve({ fetch: app.fetch, port, hostname: "127.0.0.1" }, (address) =>
  console.log(`Hono listens on http://127.0.0.1:${address.port}`),
);

chats.closeOnSignal(server);
