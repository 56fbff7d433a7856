// The inspector in a server of Hono, below /agents.
//
//   INSPECTOR_PASSWORD=secret node examples/inspector/hono.mjs
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { Savepoint } from "savepoint";
import { createInspector } from "savepoint/inspector";
import { askToSignIn, isAdmin } from "./sign-in.mjs";

const sp = await Savepoint.open();
const inspector = createInspector(sp, { basePath: "/agents", authorize: isAdmin, write: true });

const app = new Hono();
app.all("/agents/*", (c) => (isAdmin(c.req.raw) ? inspector(c.req.raw) : askToSignIn()));

const port = Number(process.env["PORT"] ?? 3000);
const server = serve({ fetch: app.fetch, port, hostname: "127.0.0.1" }, (address) =>
  console.log(`Hono listens on http://127.0.0.1:${address.port}`),
);

const close = async () => {
  // Ends the live streams, which would keep the server open.
  await inspector.close();
  server.close();
  await sp.close();
};
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => void close());
