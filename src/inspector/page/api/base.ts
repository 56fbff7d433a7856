/** Where the inspector is mounted, and the token of the API. */
import { signal } from "@preact/signals";

/** The base path: empty, or with a slash at the beginning and none at the end. */
export const base = document.querySelector<HTMLMetaElement>('meta[name="savepoint-base"]')?.content ?? "";

const KEY = `savepoint-token:${base}`;
const CHANNEL = `savepoint-inspector:${base}`;
/** How long another tab has to answer, in milliseconds. */
const ANSWER_TIME = 300;

/** The bearer token; `undefined` if the server has its own sign-in, or no token is known. */
let token: string | undefined;

/** Whether the server has refused the token. */
export const isSignedOut = signal(false);

/**
 * Reads the token: from the fragment of the URL, which is removed, from this tab, or from another tab of the inspector. It is kept
 * in the storage of this tab, so that it survives a reload and is in no URL, history or cookie.
 */
export async function readToken(): Promise<void> {
  const fromUrl = new URLSearchParams(location.hash.slice(1)).get("token");
  if (fromUrl !== null) history.replaceState(history.state, "", location.pathname + location.search);
  token = fromUrl ?? sessionStorage.getItem(KEY) ?? (await askOtherTabs());
  if (token !== undefined) sessionStorage.setItem(KEY, token);
  shareToken();
}

/** Uses a token that the user has pasted: the token, or the URL that contains it. */
export function adoptToken(text: string): void {
  const match = /#token=([^&\s]+)/.exec(text);
  token = match?.[1] ?? text.trim();
  sessionStorage.setItem(KEY, token);
  isSignedOut.value = false;
}

/** The headers of every request. */
export function authorization(): Readonly<Record<string, string>> {
  return token === undefined ? {} : { authorization: `Bearer ${token}` };
}

/** A tab that was opened from a link has no token. Only pages of the same origin can ask, and those could read it anyway. */
function askOtherTabs(): Promise<string | undefined> {
  const channel = new BroadcastChannel(CHANNEL);
  return new Promise((resolve) => {
    const finish = (answer: string | undefined): void => {
      clearTimeout(timer);
      channel.close();
      resolve(answer);
    };
    const timer = setTimeout(finish, ANSWER_TIME, undefined);
    channel.addEventListener("message", ({ data }: MessageEvent<{ readonly token?: unknown }>) => {
      if (typeof data.token === "string") finish(data.token);
    });
    channel.postMessage({ ask: true });
  });
}

function shareToken(): void {
  const channel = new BroadcastChannel(CHANNEL);
  channel.addEventListener("message", ({ data }: MessageEvent<{ readonly ask?: unknown }>) => {
    if (data.ask === true && token !== undefined && !isSignedOut.value) channel.postMessage({ token });
  });
}
