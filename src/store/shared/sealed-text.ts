/**
 * Sealed strings: encrypted values as the strings that the contract of a store requires. A marker, which nothing else that is
 * stored starts with, comes before the bytes in base64. Stores that keep bytes store a sealed string without the marker and the
 * base64, which is a quarter less.
 */

/** The first character of every sealed string. */
export const SEAL_MARKER = "\u0002";

/** The string for encrypted bytes. */
export function sealedText(bytes: Uint8Array): string {
  const { buffer, byteOffset, length } = bytes;
  return SEAL_MARKER + Buffer.from(buffer, byteOffset, length).toString("base64");
}

/** The bytes of a sealed string; `undefined` for any other string, so that a string and its bytes always correspond exactly. */
export function sealedBytes(text: string): Buffer | undefined {
  if (!text.startsWith(SEAL_MARKER)) return undefined;
  const base64 = text.slice(1);
  const bytes = Buffer.from(base64, "base64");
  return bytes.length > 0 && bytes.toString("base64") === base64 ? bytes : undefined;
}
