/**
 * A small pooler in transaction mode, as PgBouncer is without support for prepared statements: a client gets a
 * connection to the server for the length of a transaction, and another one for the next.
 */
import { createServer, type Socket } from "node:net";
import pg from "pg";

export interface Pooler {
  readonly url: string;
  /** Statements that were prepared under a name. */
  readonly prepared: number;
  close(): Promise<void>;
}

interface Backend {
  readonly socket: Socket;
  client: Socket | undefined;
  /** Answers that are still to come. */
  awaited: number;
  rest: Buffer;
}

const SSL_REQUEST = 80_877_103;

export async function startPooler(server: string, connections = 3): Promise<Pooler> {
  const backends = await Promise.all(Array.from({ length: connections }, () => connect(server)));
  const waiting: (() => void)[] = [];
  let next = 0;
  let prepared = 0;
  const take = (): Backend | undefined => {
    // Never the one that was used last, if another is free.
    for (let index = 0; index < backends.length; index++) {
      const backend = backends[(next + index) % backends.length] as Backend;
      if (backend.client) continue;
      next = (backends.indexOf(backend) + 1) % backends.length;
      return backend;
    }
    return undefined;
  };
  for (const backend of backends) {
    backend.socket.on("data", (data: Buffer) => {
      backend.rest = Buffer.concat([backend.rest, data]);
      for (let length; (length = messageLength(backend.rest, 1)) !== undefined;) {
        const message = backend.rest.subarray(0, length);
        backend.rest = backend.rest.subarray(length);
        backend.client?.write(message);
        if (message[0] !== 0x5a) continue; // ReadyForQuery
        backend.awaited--;
        if (backend.awaited > 0 || message[5] !== 0x49) continue; // in a transaction
        backend.client = undefined;
        waiting.shift()?.();
      }
    });
  }
  const serve = (client: Socket): void => {
    let rest: Buffer = Buffer.alloc(0);
    let begun = false;
    const handle = (): void => {
      for (;;) {
        const length = messageLength(rest, begun ? 1 : 0);
        if (length === undefined) return;
        const message = rest.subarray(0, length);
        if (!begun) {
          rest = rest.subarray(length);
          if (message.readInt32BE(4) === SSL_REQUEST) client.write("N");
          else begun = welcome(client);
          continue;
        }
        if (message[0] === 0x58) return void client.end(); // Terminate
        let backend = backends.find((each) => each.client === client);
        if (!backend) {
          backend = take();
          if (!backend) return void waiting.push(handle);
          backend.client = client;
        }
        rest = rest.subarray(length);
        if (message[0] === 0x50 && message[5] !== 0) prepared++; // Parse, with a name
        if (message[0] === 0x53 || message[0] === 0x51) backend.awaited++; // Sync, Query
        backend.socket.write(message);
      }
    };
    client.on("data", (data: Buffer) => {
      rest = Buffer.concat([rest, data]);
      handle();
    });
    client.on("error", () => {});
  };
  const clients = new Set<Socket>();
  const listening = createServer((client) => {
    clients.add(client);
    client.on("close", () => clients.delete(client));
    serve(client);
  });
  await new Promise<void>((resolve) => listening.listen(0, "127.0.0.1", resolve));
  const url = new URL(server);
  url.port = String((listening.address() as { port: number }).port);
  return {
    url: url.href,
    get prepared() {
      return prepared;
    },
    async close() {
      for (const client of clients) client.destroy();
      for (const { socket } of backends) socket.destroy();
      await new Promise((resolve) => listening.close(resolve));
    },
  };
}

/** A connection to the server, as its bare socket: `pg` has said who we are. */
async function connect(server: string): Promise<Backend> {
  const client = new pg.Client({ connectionString: server });
  client.on("error", () => {});
  await client.connect();
  const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
  stream.removeAllListeners("data");
  return { socket: stream, client: undefined, awaited: 0, rest: Buffer.alloc(0) };
}

/** @param before bytes before the length, which counts itself */
function messageLength(bytes: Buffer, before: number): number | undefined {
  if (bytes.length < before + 4) return undefined;
  const length = before + bytes.readInt32BE(before);
  return bytes.length < length ? undefined : length;
}

/** Accepts every client. */
function welcome(client: Socket): true {
  const message = (type: string, body: Buffer): Buffer => {
    const head = Buffer.alloc(5);
    head.write(type);
    head.writeInt32BE(body.length + 4, 1);
    return Buffer.concat([head, body]);
  };
  client.write(
    Buffer.concat([
      message("R", Buffer.alloc(4)),
      message("S", Buffer.from("server_version\0" + "18.0\0")),
      message("S", Buffer.from("client_encoding\0UTF8\0")),
      message("K", Buffer.alloc(8)),
      message("Z", Buffer.from("I")),
    ]),
  );
  return true;
}
