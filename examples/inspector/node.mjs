// The inspector in a server of node:http, below /agents.
//
//   INSPECTOR_PASSWORD=secret node examples/inspector/node.mjs
import { createServer } from "node:http";
import { Savepoint } from "savepoint";
import { createInspector, toNodeListener } from "savepoint/inspector";
import { askToSignIn, isAdmin } from "./sign-in.mjs";

const sp = await Savepoint.open();
const inspector = createInspector(sp, { basePath: "/agents", authorize: isAdmin, write: true });

const server = createServer(
  toNodeListener((request) => {
    const { pathname } = new URL(request.url);
    if (!/^\/agents(\/|$)/.test(pathname)) return new Response("The inspector is at /agents.", { status: 404 });
    return isAdmin(request) ? inspector(request) : askToSignIn();
  }),
);

server.listen(Number(process.env["PORT"] ?? 3000), "127.0.0.1", () => {
  const address = /** @type {import("node:net").AddressInfo} */ (server.address());
  console.log(`node:http listens on http://127.0.0.1:${address.port}`);
});

const close = async () => {
  // Ends the live streams, which would keep the server open.
  await inspector.close();
  server.close();
  await sp.close();
};
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => void close());
