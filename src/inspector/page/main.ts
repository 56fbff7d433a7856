/** The first view of the page: the sessions, as a list. */
import type { SessionPage } from "../api.js";

const base = document.querySelector<HTMLMetaElement>('meta[name="savepoint-base"]')?.content ?? "";
const token = new URLSearchParams(location.hash.slice(1)).get("token");

async function show(app: HTMLElement): Promise<void> {
  const headers: HeadersInit = token === null ? {} : { authorization: `Bearer ${token}` };
  const response = await fetch(`${base}/api/sessions`, { headers });
  if (!response.ok) throw new Error(`The server responded with ${response.status}.`);
  const { sessions } = (await response.json()) as SessionPage;
  const list = document.createElement("ul");
  for (const { id, status } of sessions) {
    const entry = document.createElement("li");
    entry.textContent = `${id}: ${status}`;
    list.append(entry);
  }
  app.replaceChildren(list);
}

const app = document.getElementById("app") as HTMLElement;
show(app).catch((error: unknown) => {
  app.textContent = (error as Error).message;
});
