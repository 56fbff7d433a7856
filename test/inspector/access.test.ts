/** Who may use the inspector: attacks by other web pages, by other programs on the machine, and by clients without rights. */
import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { describe, expect, it, vi } from "vitest";
import { SavepointError } from "../../src/index.js";
import { createInspector, type InspectorOptions, toNodeListener } from "../../src/inspector/index.js";
import { equalsSecret } from "../../src/inspector/http/access.js";
import { atEnd, Client, describeFailure, open, rawRequest, serve, TOKEN, useCleanup } from "./lab.js";

useCleanup();

const HOSTS = ["127.0.0.1", "localhost", "[::1]"];
const bearer = { authorization: `Bearer ${TOKEN}` };

async function served(options: Partial<InspectorOptions> = {}): Promise<number> {
  const sp = await open();
  await sp.session("order-88").save({ messages: [] });
  return serve(new Client(sp, { hosts: HOSTS, ...options }).inspector);
}

describe("the token", () => {
  it("is required for every route of the API", async () => {
    const client = new Client(await open());
    for (const path of ["/api/meta", "/api/sessions", "/api/sessions/x", "/api/nothing", "/api/", "/api"]) {
      expect(await client.fail(path, { headers: { authorization: "none" } }), path).toBe("401 UNAUTHORIZED");
      for (const wrong of [
        "",
        "Bearer",
        "Bearer ",
        `Bearer ${TOKEN}x`,
        `Bearer ${TOKEN.slice(0, -1)}`,
        `Basic ${TOKEN}`,
        TOKEN,
      ]) {
        expect(await client.fail(path, { headers: { authorization: wrong } }), wrong).toBe("401 UNAUTHORIZED");
      }
    }
  });

  it("is not accepted in the URL or in a cookie", async () => {
    const client = new Client(await open());
    expect(await client.fail(`/api/sessions?token=${TOKEN}`, { headers: { authorization: "none" } })).toBe(
      "401 UNAUTHORIZED",
    );
    expect(await client.fail("/api/sessions", { headers: { authorization: "none", cookie: `token=${TOKEN}` } })).toBe(
      "401 UNAUTHORIZED",
    );
  });

  it("is compared as a hash, so that the time of the comparison depends on neither of the tokens", () => {
    expect(equalsSecret(TOKEN, TOKEN)).toBe(true);
    expect(equalsSecret("", TOKEN)).toBe(false);
    expect(equalsSecret(`${TOKEN}\u0000`, TOKEN)).toBe(false);
    // timingSafeEqual throws for values of different lengths: hashes have one length.
    expect(equalsSecret("x".repeat(100_000), TOKEN)).toBe(false);
    expect(equalsSecret("é", TOKEN)).toBe(false);
  });

  it("must be long enough", async () => {
    const sp = await open();
    expect(() => createInspector(sp, { token: "short" })).toThrow("at least 16 characters");
  });

  it("is not needed for the page, which has no data", async () => {
    const client = new Client(await open());
    for (const path of ["/", "/sessions/x", "/index.html", "/../../etc/passwd"]) {
      const response = await client.send(path, { headers: { authorization: "none" } });
      expect(response.status).toBe(200);
      expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8");
    }
  });
});

describe("authorize", () => {
  it("is required, unless there is a token", async () => {
    const sp = await open();
    expect(() => createInspector(sp, {})).toThrow("authorize");
  });

  it("decides about the page and the API, and only `true` accepts", async () => {
    const sp = await open();
    const authorize = (request: Request) => request.headers.get("x-user") === "ada";
    const client = new Client(sp, { authorize, basePath: "/inspector" });
    for (const path of ["/", "/api/sessions", "/assets/main.js"]) {
      expect(await client.fail(path), path).toBe("401 UNAUTHORIZED");
    }
    expect((await client.send("/api/sessions", { headers: { "x-user": "ada" } })).status).toBe(200);
    expect((await client.send("/", { headers: { "x-user": "ada" } })).status).toBe(200);
    const lax = new Client(sp, { authorize: (() => "yes") as unknown as () => boolean });
    expect(await lax.fail("/api/sessions")).toBe("401 UNAUTHORIZED");
  });

  it("that throws accepts nothing", async () => {
    const client = new Client(await open(), { authorize: () => Promise.reject(new Error("no database")) });
    const warn = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    expect(await client.fail("/api/sessions")).toBe("500 UNEXPECTED");
    expect(warn).toHaveBeenCalledOnce();
    warn.mockRestore();
  });

  it("that throws does not show its error to a client that was not accepted", async () => {
    const secret = "connect postgres://admin:hunter2@10.0.0.7";
    const reported: string[] = [];
    const warn = vi.spyOn(process, "emitWarning").mockImplementation((warning) => void reported.push(String(warning)));
    for (const error of [new Error(secret), new SavepointError("UNAVAILABLE", secret), secret]) {
      // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- callers can throw anything
      const client = new Client(await open(), { authorize: () => Promise.reject(error) });
      for (const path of ["/", "/api/sessions"]) {
        const response = await client.send(path);
        expect(response.status).toBe(500);
        expect(await response.text()).not.toContain("hunter2");
      }
    }
    // The owner of the server learns why.
    expect(reported.filter((each) => each.includes("hunter2"))).toHaveLength(6);
    warn.mockRestore();
  });

  it("and a token are both required if both are set", async () => {
    const client = new Client(await open(), { authorize: () => true, token: TOKEN });
    expect((await client.send("/api/meta")).status).toBe(200);
    expect(await client.fail("/api/meta", { headers: { authorization: "none" } })).toBe("401 UNAUTHORIZED");
  });
});

describe("requests of other web pages", () => {
  it("are rejected for names of attackers that resolve to this machine", async () => {
    const port = await served();
    for (const host of [
      `127.0.0.1:${port}`,
      "127.0.0.1",
      `localhost:${port}`,
      "LOCALHOST",
      "127.0.0.1:9000",
      `[::1]:${port}`,
    ]) {
      expect((await rawRequest(port, "/api/sessions", { ...bearer, host })).status, host).toBe(200);
    }
    const hostile = [
      "evil.example",
      `evil.example:${port}`,
      "127.0.0.1.evil.example",
      `127.0.0.1:${port}.evil.example`,
      "evil.example@127.0.0.1",
      "127.0.0.1@evil.example",
      "127.0.0.1/.evil.example",
      "evil.example#127.0.0.1",
      "0.0.0.0",
    ];
    for (const host of hostile) {
      const response = await rawRequest(port, "/api/sessions", { ...bearer, host });
      expect(`${host}: ${response.status}`).toMatch(/40[03]$/);
      // Not even the page is served for them.
      expect([400, 403], host).toContain((await rawRequest(port, "/", { host })).status);
    }
  });

  it("cannot move the path of a request into its host, past the checks of a server in front", async () => {
    const sp = await open();
    const paths: string[] = [];
    const authorize = (request: Request) => paths.push(new URL(request.url).pathname) > 0;
    const port = await serve(new Client(sp, { authorize }).inspector);
    for (const host of ["x/api/meta?", "x/api/meta#", "x\\api\\meta?", "user@x", "x/api", "a b"]) {
      expect((await rawRequest(port, "/public", { host })).status, host).toBe(400);
    }
    expect(paths).toEqual([]);
  });

  it("are rejected by their origin, even with the token and for reads", async () => {
    const port = await served({ write: true });
    const own = `http://127.0.0.1:${port}`;
    const call = (origin: string, method = "GET") =>
      rawRequest(
        port,
        method === "GET" ? "/api/sessions" : "/api/sessions/order-88/pin",
        { ...bearer, origin, "content-type": "application/json" },
        method,
        method === "GET" ? undefined : '{"checkpoint":0,"pinned":true}',
      );
    expect((await call(own)).status).toBe(200);
    expect((await call(own, "POST")).status).toBe(200);
    for (const origin of [
      "https://evil.example",
      "null",
      `http://127.0.0.1:${port + 1}`,
      `http://localhost:${port}`,
      "file://",
      `${own}.evil.example`,
      "http://",
      "x",
    ]) {
      expect((await call(origin)).status, origin).toBe(403);
      expect((await call(origin, "POST")).status, origin).toBe(403);
    }
  });

  it("are rejected by `sec-fetch-site` if they have no origin", async () => {
    const client = new Client(await open());
    for (const site of ["cross-site", "same-site", "anything"]) {
      expect(await client.fail("/api/sessions", { headers: { "sec-fetch-site": site } }), site).toBe("403 FORBIDDEN");
    }
    for (const site of ["same-origin", "none"]) {
      expect((await client.send("/api/sessions", { headers: { "sec-fetch-site": site } })).status).toBe(200);
    }
    // A link on another page to the inspector is followed.
    expect((await client.send("/", { headers: { "sec-fetch-site": "cross-site" } })).status).toBe(200);
  });

  it("cannot write with a form or any other request that needs no preflight", async () => {
    const sp = await open();
    await sp.session("s").save(1);
    const client = new Client(sp, { write: true });
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "multipart/form-data",
      "none",
      "text/json",
      "application/jsonp",
    ]) {
      const init = { method: "POST", headers: { "content-type": type }, body: '{"checkpoint":0,"pinned":true}' };
      expect(await client.fail("/api/sessions/s/pin", init), type).toBe("415 UNSUPPORTED_MEDIA_TYPE");
    }
    expect((await sp.session("s").head())?.pinned).toBe(false);
    expect(await client.fail("/api/sessions/s/pin", { method: "OPTIONS" })).toBe("405 METHOD_NOT_ALLOWED");
  });

  it("get no permission from any header of a response", async () => {
    const client = new Client(await open());
    for (const path of ["/", "/api/sessions", "/api/nothing", "/assets/nothing.js"]) {
      const { headers } = await client.send(path, { headers: { origin: "http://127.0.0.1:4400" } });
      expect([...headers.keys()].filter((name) => name.startsWith("access-control-"))).toEqual([]);
      const policy = headers.get("content-security-policy") ?? "";
      expect(policy).toContain("default-src 'none'");
      expect(policy).toContain("frame-ancestors 'none'");
      expect(policy).not.toContain("unsafe");
      expect(policy).toContain("require-trusted-types-for 'script'");
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("x-frame-options")).toBe("DENY");
      expect(headers.get("referrer-policy")).toBe("no-referrer");
      expect(headers.get("cross-origin-resource-policy")).toBe("same-origin");
    }
    expect((await client.send("/api/sessions")).headers.get("cache-control")).toBe("no-store");
  });

  it("are accepted from the origins of a proxy", async () => {
    const client = new Client(await open(), { origins: ["https://ops.example.com"], authorize: () => true });
    expect((await client.send("/api/sessions", { headers: { origin: "https://ops.example.com" } })).status).toBe(200);
    expect(await client.fail("/api/sessions", { headers: { origin: "https://ops.example.com:1" } })).toBe(
      "403 FORBIDDEN",
    );
    const sp = await open();
    expect(() => createInspector(sp, { authorize: () => true, origins: ["https://x.example/path"] })).toThrow(
      "origins",
    );
  });
});

describe("a read-only inspector", () => {
  it("rejects every write, and changes nothing", async () => {
    const sp = await open();
    await sp.session("s").save({ n: 1 });
    const client = new Client(sp);
    for (const verb of ["fork", "rewind", "label", "pin"]) {
      expect(await client.failPost(`/api/sessions/s/${verb}`, { checkpoint: 0 }), verb).toBe("403 READ_ONLY");
    }
    expect(await sp.session("s").branches().all()).toHaveLength(1);
    expect((await client.get("/api/meta")).write).toBe(false);
  });
});

describe("hostile requests", () => {
  it("of paths that try to leave the page's files get no file", async () => {
    const port = await served();
    const paths = [
      "/assets/../package.json",
      "/assets/..%2f..%2fpackage.json",
      "/assets/%2e%2e/%2e%2e/etc/passwd",
      "/assets/....//etc/passwd",
      "/assets/__proto__",
      "/assets/constructor",
      "/assets/index.html%00",
      "//evil.example/assets/x",
      "/assets/\\..\\..\\x",
    ];
    for (const path of paths) {
      const { status, body } = await rawRequest(port, path);
      expect([200, 404], path).toContain(status);
      expect(body, path).not.toMatch(/root:|"devDependencies"/);
      if (status === 200) expect(body, path).toContain("<!doctype html>");
    }
  });

  it("with malformed ids and parameters are errors of the client", async () => {
    const sp = await open();
    await sp.session("s").save(1);
    const client = new Client(sp);
    const bad = [
      "/api/sessions?limit=-1",
      "/api/sessions?limit=1e3",
      "/api/sessions?limit=1&limit=2",
      "/api/sessions?sort=__proto__",
      "/api/sessions?status=constructor",
      "/api/sessions?unknown=1",
      "/api/sessions/%E0%A4%A/history",
      "/api/sessions/a%00b/history",
      "/api/sessions/%01agent/history",
      "/api/sessions/s/state?pointer=nothing",
      "/api/sessions/s/state?pointer=/__proto__",
      `/api/sessions/${"x".repeat(10_000)}`,
    ];
    for (const path of bad) expect(await client.fail(path), path.slice(0, 80)).toMatch(/^400 INVALID/);
    for (const path of [
      "/api/sessions/none",
      "/api/sessions/none/history",
      "/api/sessions/s/checkpoint?at=77",
      "/api/nothing",
      "/api//sessions",
    ]) {
      expect(await client.fail(path), path).toMatch(/^404 /);
    }
    expect(await client.fail("/api/sessions", { method: "DELETE" })).toBe("405 METHOD_NOT_ALLOWED");
    expect(await client.failPost("/api/sessions", {})).toBe("405 METHOD_NOT_ALLOWED");
  });

  it("with ids of any characters reach their sessions", async () => {
    const sp = await open();
    const { encodeId } = await import("../../src/inspector/api.js");
    const client = new Client(sp);
    for (const id of [
      ".",
      "..",
      "~",
      "~x",
      "a/b",
      "a%2Fb",
      "?#&",
      "<script>alert(1)</script>",
      "日本 語",
      "__proto__",
    ]) {
      await sp.session(id).save({ id });
      const { checkpoint, state } = await client.get(`/api/sessions/${encodeId(id)}/checkpoint`);
      expect(checkpoint.sessionId, id).toBe(id);
      expect(state).toEqual({ id });
    }
  });

  it("with malformed bodies are errors of the client", async () => {
    const sp = await open();
    await sp.session("s").save(1);
    const client = new Client(sp, { write: true });
    const json = { "content-type": "application/json; charset=utf-8" };
    const bodies = [
      "{",
      "[]",
      "null",
      "1",
      '"x"',
      '{"checkpoint":{"$gt":""}}',
      '{"checkpoint":-1,"pinned":true}',
      '{"checkpoint":0,"pinned":"yes"}',
      '{"checkpoint":0,"pinned":true,"more":1}',
      "{}",
      '{"__proto__":{"pinned":true},"checkpoint":0}',
    ];
    for (const body of bodies) {
      expect(await client.fail("/api/sessions/s/pin", { method: "POST", headers: json, body }), body).toBe(
        "400 INVALID_ARGUMENT",
      );
    }
    const notText = new Uint8Array([0x7b, 0xff, 0xfe, 0x7d]);
    expect(await client.fail("/api/sessions/s/pin", { method: "POST", headers: json, body: notText })).toBe(
      "400 INVALID_ARGUMENT",
    );
  });

  it("with huge bodies are rejected before they are read completely", async () => {
    const sp = await open();
    await sp.session("s").save(1);
    const client = new Client(sp, { write: true });
    const init = (body: RequestInit["body"]) =>
      ({ method: "POST", headers: { "content-type": "application/json" }, body, duplex: "half" }) as RequestInit;
    let pulled = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        pulled++;
        controller.enqueue(new Uint8Array(1024 * 1024).fill(32));
      },
    });
    expect(await describeFailure(await client.send("/api/sessions/s/fork", init(endless)))).toBe("413 TOO_LARGE");
    expect(pulled).toBeLessThan(30);
    const announced = { "content-length": String(1e12) };
    expect(await describeFailure(await client.sendJson("/api/sessions/s/fork", {}, announced))).toBe("413 TOO_LARGE");
  });

  it("that are nested deeply or have a very long path are rejected with a short message", async () => {
    const sp = await open();
    await sp.session("s").save({ n: 1 });
    const client = new Client(sp, { write: true });
    const send = async (body: string): Promise<string> => {
      const init = { method: "POST", headers: { "content-type": "application/json" }, body };
      const response = await client.send("/api/sessions/s/preview", init);
      const text = await response.text();
      expect(text.length).toBeLessThan(10_000);
      return `${response.status} ${(JSON.parse(text) as { error: { code: string } }).error.code}`;
    };
    const levels = 200_000;
    const deep = [`${"[".repeat(levels)}${"]".repeat(levels)}`, `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`];
    for (const value of deep) {
      expect(await send(`{"checkpoint":0,"state":${value}}`)).toBe("400 INVALID_ARGUMENT");
      const change = `{"op":"add","path":"/x","value":${value}}`;
      expect(await send(`{"checkpoint":0,"changes":[${change}]}`)).toBe("400 INVALID_ARGUMENT");
    }
    const path = "/a".repeat(levels);
    expect(await send(`{"checkpoint":0,"changes":[{"op":"add","path":"${path}","value":1}]}`)).toBe(
      "400 INVALID_ARGUMENT",
    );
    // Brackets in strings are no levels.
    const brackets = JSON.stringify(`\\"${"[".repeat(levels)}`);
    expect((await client.sendJson("/api/sessions/s/preview", { checkpoint: 0, state: brackets })).status).toBe(200);
  });

  it("of clients that never read the response are ended after a minute", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    atEnd(() => vi.useRealTimers());
    let [sent, isCancelled] = [0, false];
    const endless = (): Response =>
      new Response(
        new ReadableStream<Uint8Array>({
          pull: (controller) => controller.enqueue(new Uint8Array((sent += 65_536) && 65_536)),
          cancel: () => void (isCancelled = true),
        }),
      );
    const server = createServer(toNodeListener(endless)).listen(0, "127.0.0.1");
    await once(server, "listening");
    atEnd(() => void server.close());
    const socket = connect((server.address() as AddressInfo).port, "127.0.0.1").pause();
    socket.on("error", () => {});
    socket.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    await vi.waitFor(() => expect(vi.getTimerCount()).toBe(1));
    const before = sent;
    await vi.advanceTimersByTimeAsync(59_000);
    expect(isCancelled).toBe(false);
    expect(sent).toBe(before);
    await vi.advanceTimersByTimeAsync(2000);
    await vi.waitFor(() => expect(isCancelled).toBe(true));
    socket.destroy();
  });

  it("that are not HTTP do not end the server", async () => {
    const port = await served();
    for (const text of [
      "GET / HTTP/1.1\r\nHost: [\r\n\r\n",
      "TRACE / HTTP/1.1\r\nHost: x\r\n\r\n",
      "\u0000\u0001",
      "GET http://evil.example/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ]) {
      await new Promise<void>((resolve, reject) => {
        const socket = connect(port, "127.0.0.1", () => socket.end(text));
        socket
          .on("error", reject)
          .on("close", () => resolve())
          .resume();
      });
    }
    expect((await rawRequest(port, "/api/sessions", bearer)).status).toBe(200);
  });
});
