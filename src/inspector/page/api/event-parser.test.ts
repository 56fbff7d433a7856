import { describe, expect, it } from "vitest";
import { EventParser } from "./event-parser.js";

describe("the parser of server-sent events", () => {
  it("finds events however the stream is cut", () => {
    const stream =
      'id: 7\nevent: sessions\ndata: {"a":1}\n\n: still here\n\nevent: hello\r\ndata: {\r\ndata: }\r\n\r\n';
    const expected = [
      { id: "7", name: "sessions", data: '{"a":1}' },
      { id: undefined, name: "hello", data: "{\n}" },
    ];
    for (let size = 1; size <= stream.length; size++) {
      const parser = new EventParser();
      const events = [];
      for (let at = 0; at < stream.length; at += size) events.push(...parser.push(stream.slice(at, at + size)));
      expect(events, `pieces of ${size}`).toEqual(expected);
    }
  });

  it("ignores comments and events without data", () => {
    expect(new EventParser().push(": ping\n\nevent: empty\n\nid: 1\n\n")).toEqual([]);
  });

  it("keeps what is incomplete for the next piece", () => {
    const parser = new EventParser();
    expect(parser.push("data: one")).toEqual([]);
    expect(parser.push("\n\ndata: two\n\n").map(({ data }) => data)).toEqual(["one", "two"]);
  });
});
