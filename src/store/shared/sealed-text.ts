/**
 * Sealed strings: encrypted values as the strings that the contract of a store requires. A marker, with which no other stored string begins, precedes the bytes in base64. Stores that support bytes store only the bytes, without
 * the marker and the base64, which takes a quarter less space.
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
  const bytes = Buffer.from(text.slice(1), "base64");
  return isExact(text, bytes) ? bytes : undefined;
}

/** Whether these bytes encode to this string again. Encoding all of them again would take as long as decoding. */
function isExact(text: string, bytes: Buffer): boolean {
  // The decoder skips other characters, and accepts two that the encoder does not use.
  if (bytes.length === 0 || text.length - 1 !== 4 * Math.ceil(bytes.length / 3)) return false;
  if (text.includes("-") || text.includes("_")) return false;
  // Bits behind the last byte, and the padding.
  const rest = bytes.length % 3 || 3;
  return text.endsWith(bytes.toString("base64", bytes.length - rest));
}
