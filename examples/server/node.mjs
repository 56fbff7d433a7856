// The chat server with node:http alone.
//
//   node examples/server/node.mjs
import { createServer } from "node:http";
import { Readable } from "node:stream";
import { json } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { Chats } from "./chats.mjs";

/** @import { IncomingMessage, ServerResponse } from "node:http" */

const chats = await Chats.open();

/** @param {IncomingMessage} request @returns {Promise<Response>} */
async function route(request) {
  const { pathname } = new URL(request.url ?? "/", "http://localhost");
  const [, path, chat = "", verb] = /^(\/api\/chat)(?:\/([^/]+))?(?:\/([^/]+))?$/.exec(pathname) ?? [];
  const id = decodeURIComponent(chat);
  switch (path && `${request.method} ${chat && ":id"} ${verb ?? ""}`.trim()) {
    case "POST":
      return chats.post(await parse(request));
    case "GET :id":
      return chats.show(id);
    case "GET :id stream":
      return chats.follow(id);
    case "POST :id stop":
      return chats.stop(id);
    case "POST :id answer":
      return chats.answer(id, await parse(request));
    default:
      return new Response("Not found", { status: 404 });
  }
}

/** @param {IncomingMessage} request @returns {Promise<object>} */
async function parse(request) {
  return /** @type {Promise<object>} */ (json(request)).catch(() => ({}));
}

/** Sends a Response. A client that disconnects ends only its own copy of the stream. @param {Response} from @param {ServerResponse} to */
async function send(from, to) {
  to.writeHead(from.status, Object.fromEntries(from.headers));
  if (!from.body) return to.end();
  const body = Readable.fromWeb(/** @type {import("node:stream/web").ReadableStream} */ (from.body));
  await pipeline(body, to).catch(() => {});
}

const server = createServer((request, response) => {
  route(request)
    .then((from) => send(from, response))
    .catch((error) => {
      console.error(error);
      response.writeHead(500).end("The request has failed.");
    });
});

server.listen(Number(process.env["PORT"] ?? 3000), "127.0.0.1", () => {
  const address = /** @type {import("node:net").AddressInfo} */ (server.address());
  console.log(`node:http listens on http://127.0.0.1:${address.port}`);
});

chats.closeOnSignal(server);
