/** A proxy between a store and its server that cuts connections on request. */
import { connect, createServer, type Socket } from "node:net";

/** What the server says when it waits for a statement. */
const READY = Buffer.from("Z\0\0\0\x05I", "latin1");
/** What a client says when it leaves. */
const GOODBYE = Buffer.from("X\0\0\0\x04", "latin1");
const FIELDS = "SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0";
/** What it says to those whose connection it ends. */
const ENDED = Buffer.from(`E\0\0\0${String.fromCharCode(FIELDS.length + 4)}${FIELDS}`, "latin1");

export interface Proxy {
  /** The URL of a store, by way of the proxy. */
  readonly url: string;
  /** The next answer of the server is lost, with its connection. Resolves when that has happened; no client can connect before {@link open}. */
  loseAnswer(): Promise<void>;
  open(): void;
  /** The next client that connects learns that it may begin and, at once, that the server has ended its connection. */
  endNext(): void;
  /** The same for the next client that gets an answer. */
  endAnswered(): void;
  /** A client that terminates its connection first gets the message that the server has ended it. */
  endLeaving(): void;
  /** Cuts all connections that there are. */
  cut(): void;
  /** Cuts them, and lets no client connect before {@link back}. */
  away(): void;
  back(): void;
  /** How many connections there are, on both sides. */
  readonly connections: number;
  close(): Promise<void>;
}

export async function startProxy(url: string): Promise<Proxy> {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  let lose: (() => void) | undefined;
  let opened: Promise<void> = Promise.resolve();
  let open = (): void => {};
  let isAway = false;
  let endsLeaving = false;
  let endsNext = false;
  let endsAnswered = false;
  const server = createServer((client) => {
    client.on("error", () => {});
    if (isAway) return void client.destroy();
    sockets.add(client);
    client.pause();
    let ends = endsNext;
    endsNext = false;
    void opened.then(() => {
      const upstream = connect(Number(target.port), target.hostname);
      sockets.add(upstream);
      upstream.on("error", () => client.destroy());
      upstream.on("close", () => client.destroy());
      client.on("close", () => upstream.destroy());
      client.on("data", (data) => {
        if (endsLeaving && data.subarray(-GOODBYE.length).equals(GOODBYE)) client.end(ENDED);
        else upstream.write(data);
      });
      upstream.on("data", (data) => {
        if ((ends || endsAnswered) && data.subarray(-READY.length).equals(READY)) {
          ends = endsAnswered = false;
          return void client.end(Buffer.concat([data, ENDED]));
        }
        if (!lose) return void client.write(data);
        client.destroy();
        lose();
        lose = undefined;
      });
      client.resume();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const through = new URL(url);
  through.port = String(port);
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
    sockets.clear();
  };
  return {
    url: through.href,
    cut,
    away() {
      isAway = true;
      cut();
    },
    back: () => void (isAway = false),
    get connections() {
      return [...sockets].filter(({ destroyed }) => !destroyed).length;
    },
    loseAnswer: () =>
      new Promise((resolve) => {
        opened = new Promise((done) => (open = done));
        lose = resolve;
      }),
    open: () => open(),
    endLeaving: () => void (endsLeaving = true),
    endNext: () => void (endsNext = true),
    endAnswered: () => void (endsAnswered = true),
    async close() {
      open();
      cut();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
