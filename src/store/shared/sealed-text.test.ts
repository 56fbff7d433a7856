import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { SEAL_MARKER, sealedBytes, sealedText } from "./sealed-text.js";

describe("sealed strings", () => {
  it("stand for bytes of any length", () => {
    for (let length = 1; length < 100; length++) {
      const bytes = randomBytes(length);
      expect(sealedBytes(sealedText(bytes))).toEqual(bytes);
    }
  });

  it("have bytes only if these encode to exactly the same string", () => {
    for (let round = 0; round < 3_000; round++) {
      const text = sealedText(randomBytes(1 + (round % 30)));
      const at = 1 + (round % (text.length - 1));
      const changed = text.slice(0, at) + "A-_= \n/+é9"[round % 10] + text.slice(at + 1);
      const bytes = sealedBytes(changed);
      if (bytes) expect(sealedText(bytes)).toBe(changed);
    }
    for (const other of ["", "QR==", "QQ", "QQ===", "QQ== ", "Q Q==", "QQ=="].map((base64) => SEAL_MARKER + base64)) {
      const bytes = sealedBytes(other);
      expect(bytes && sealedText(bytes)).toBe(other.endsWith("\u0002QQ==") ? other : undefined);
    }
    expect(sealedBytes("QQ==")).toBeUndefined();
  });
});
