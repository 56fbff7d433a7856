import { Chats } from "../../../../chats.mjs";

/** The chats of this process: one for all routes, also when the development server loads a route again. */
const shared = /** @type {{ chats?: Promise<Chats> }} */ (globalThis);

/** Opens the store with the first request, and not when the app is built. */
export const openChats = () => (shared.chats ??= Chats.open());
