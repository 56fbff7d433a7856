// A sign-in with one password, in place of that of your application.
import { createHash, timingSafeEqual } from "node:crypto";

const password = process.env["INSPECTOR_PASSWORD"];
if (!password) throw new Error("Set INSPECTOR_PASSWORD: the inspector shows everything in the store.");

const hash = (/** @type {string} */ text) => createHash("sha256").update(text).digest();
const expected = hash(`Basic ${Buffer.from(`admin:${password}`).toString("base64")}`);

/** Whether a request is signed in as `admin`. @param {Request} request */
export const isAdmin = (request) => timingSafeEqual(hash(request.headers.get("authorization") ?? ""), expected);

/** Makes browsers ask for the password. */
export const askToSignIn = () =>
  new Response("Sign in", { status: 401, headers: { "www-authenticate": 'Basic realm="inspector", charset="UTF-8"' } });
