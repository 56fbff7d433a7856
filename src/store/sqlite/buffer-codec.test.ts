import { describe, expect, it } from "vitest";
import { checksum, sealedText } from "../shared/index.js";
import { type BufferRow, decodeCommit, encodeCommit } from "./buffer-codec.js";

/** A row with fitting checksums, as an attacker can make one. */
function forge(body: string, keys = '["k"]'): BufferRow {
  return { keys, keys_sum: checksum(keys), sum: checksum(body), body: Buffer.from(body) };
}

describe("a row of the write buffer", () => {
  it("decodes to the commit that was encoded", () => {
    const commit = {
      puts: [{ key: "a\tü", value: "1\n2", refs: "0+1" }],
      items: [{ tape: "t", first: 3, items: [{ json: "{}", refs: "#f" }] }],
    };
    expect(decodeCommit(encodeCommit(commit))).toEqual(commit);
  });

  it("stores sealed strings as bytes, not as base64", () => {
    const secret = Buffer.from(Array.from({ length: 300 }, (_, index) => index & 255));
    const commit = {
      puts: [
        { key: "a", value: sealedText(secret), refs: "0+1" },
        { key: "b", value: "ü", refs: "" },
      ],
      items: [{ tape: "t", first: 3, items: [{ json: sealedText(Buffer.from("x")), refs: "#f" }] }],
    };
    const row = encodeCommit(commit);
    expect(decodeCommit(row)).toEqual(commit);
    expect(Buffer.from(row.body).includes(secret)).toBe(true);
    for (let at = 0; at < row.body.length; at++) {
      const body = Uint8Array.from(row.body, (byte, index) => (index === at ? byte ^ 1 : byte));
      expect(decodeCommit({ ...row, body }), `byte ${at}`).toEqual({ lost: ["a", "b"] });
    }
  });

  it.each([
    ["no header", "x"],
    ["a header that is no JSON", "[[\n"],
    ["a header of another shape", '{"a":1}\n'],
    ["records that are no lists", '[["k"],[]]\n'],
    ["a sealed string that is longer than the row", '[[["k",-1,0]],[]]\n'],
    ["a length that is no integer", '[[["k",1.5,0]],[]]\nx'],
    ["items without lengths", '[[],[["t",0,{}]]]\n'],
    ["a header with 200,000 nested lists", `${"[".repeat(200_000)}${"]".repeat(200_000)}\n`],
    ["a header of five megabytes", `[[${'["k",0,0],'.repeat(500_000)}["k",0,0]],[]]\n`],
  ])("counts as damaged if it has %s, and names the records that are lost", (_, body) => {
    expect(decodeCommit(forge(body))).toEqual({ lost: ["k"] });
  });

  it.each([["{}"], ["[1]"], ["["], [`["${"k".repeat(2_000_000)}"]`]])(
    "is unknown if its list of keys is invalid too",
    (keys) => {
      expect(decodeCommit(forge("x", keys))).toBeUndefined();
    },
  );
});
