/** Responses, and the headers that all of them have. */
import { type Json, toJson } from "../../index.js";
import type { ApiError } from "../api.js";
import { describeHttpError } from "./errors.js";

/**
 * The page may load only its own scripts and styles and talk only to its own server. Assigning HTML to an element throws in browsers
 * with trusted types, because the page creates no policy.
 */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

/** The headers of every response. */
export const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy": CONTENT_SECURITY_POLICY,
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), geolocation=(), microphone=()",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};

/** Largest `Uint8Array` in a response that is not cut anyway: of a larger one only the length is sent. */
const MAX_BYTES = 65_536;

/** A value in the form in which it is sent. */
export function toWire(value: unknown): Json {
  return toJson(value, { omitUndefined: true, maxBytes: MAX_BYTES });
}

/** A response with JSON. The value must be JSON already; {@link toWire} converts others. */
export function jsonResponse(value: unknown, status = 200, headers: Readonly<Record<string, string>> = {}): Response {
  return new Response(JSON.stringify(value), {
    status,
    headers: {
      ...SECURITY_HEADERS,
      "content-type": "application/json; charset=utf-8",
      "cache-control": "no-store",
      ...headers,
    },
  });
}

/** The response to an error. */
export function errorResponse(error: unknown, headers: Readonly<Record<string, string>> = {}): Response {
  const { status, code, message } = describeHttpError(error);
  return jsonResponse({ error: { code, message } } satisfies ApiError, status, headers);
}
