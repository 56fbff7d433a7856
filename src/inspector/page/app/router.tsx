/** The router: each view has a path below the base path. Ids in paths are encoded like in the API. */
import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { encodeId } from "../../api.js";
import { base } from "../api/base.js";
import { type Parameters, withParameters } from "../api/client.js";

/** Where the page is. */
export interface Place {
  /** The decoded segments of the path below the base path. */
  readonly segments: readonly string[];
  readonly query: URLSearchParams;
}

function readPlace(): Place {
  const path = location.pathname.slice(base.length);
  const segments = path.split("/").filter((segment) => segment !== "");
  return { segments: segments.map(decodeSegment), query: new URLSearchParams(location.search) };
}

function decodeSegment(segment: string): string {
  try {
    const text = decodeURIComponent(segment);
    return text.startsWith("~") ? text.slice(1) : text;
  } catch {
    return segment;
  }
}

export const place = signal<Place>(readPlace());

window.addEventListener("popstate", () => {
  place.value = readPlace();
});

/** Goes to a path of the page. */
export function navigate(path: string, { replace = false }: { readonly replace?: boolean } = {}): void {
  const url = `${base}${path}`;
  if (url === location.pathname + location.search) return;
  if (replace) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
  place.value = readPlace();
}

/** Changes query parameters of the current path. */
export function setQuery(changes: Parameters, options: { readonly replace?: boolean } = { replace: true }): void {
  const merged = { ...Object.fromEntries(place.value.query), ...changes };
  navigate(withParameters(location.pathname.slice(base.length) || "/", merged), options);
}

/** The paths of the views. */
export const paths = {
  sessions: "/",
  session: (id: string, branch?: string): string => withParameters(`/sessions/${encodeId(id)}`, { branch }),
  checkpoint: (id: string, seq: number, query: Parameters = {}): string =>
    withParameters(`/sessions/${encodeId(id)}/checkpoints/${seq}`, query),
  edit: (id: string, seq: number, query: Parameters = {}): string =>
    withParameters(`/sessions/${encodeId(id)}/checkpoints/${seq}/edit`, query),
  timeline: (id: string, branch?: string): string =>
    withParameters(`/sessions/${encodeId(id)}/timeline`, { branch: branch === "main" ? undefined : branch }),
  journal: (id: string, branch?: string, query: Parameters = {}): string =>
    withParameters(`/sessions/${encodeId(id)}/journal`, { branch: branch === "main" ? undefined : branch, ...query }),
  questions: "/questions",
  queue: "/queue",
  conversations: "/conversations",
  conversation: (id: string): string => `/conversations/${encodeId(id)}`,
  agents: "/agents",
  agent: (id: string): string => `/agents/${encodeId(id)}`,
  restore: (id: string): string => withParameters("/restore", { id }),
  search: "/search",
  store: "/store",
  retention: "/store/retention",
  damage: "/store/damage",
} as const;

interface LinkProps {
  readonly to: string;
  /** Replaces the current entry of the browser's history. */
  readonly replace?: boolean;
  readonly class?: string;
  readonly title?: string;
  readonly children?: ComponentChildren;
  readonly "aria-label"?: string;
  readonly "aria-current"?: "page" | undefined;
}

/** A link to another view. Modified clicks open tabs as usual. */
export function Link({ to, replace = false, children, ...rest }: LinkProps): JSX.Element {
  return (
    <a
      {...rest}
      href={`${base}${to}`}
      onClick={(event) => {
        if (event.defaultPrevented || event.button !== 0) return;
        if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
        event.preventDefault();
        navigate(to, { replace });
      }}
    >
      {children}
    </a>
  );
}
