/** The view of each path. All but the first are loaded when they are opened. */
import type { ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Empty, Failure, Skeleton } from "../ui/states.js";
import { ApiFailure } from "../api/client.js";
import { Sessions } from "../views/sessions/sessions.js";
import { Link, paths, type Place } from "./router.js";

export interface ViewProps {
  /** The ids in the path, in order. */
  readonly ids: readonly string[];
  readonly query: URLSearchParams;
}
type View = ComponentType<ViewProps>;

interface Route {
  /** Segments; `:` stands for an id. */
  readonly pattern: string;
  readonly title: string;
  readonly load: () => Promise<View>;
}

const session = (): Promise<View> => import("../views/session/session.js").then((module) => module.Session);

const ROUTES: readonly Route[] = [
  { pattern: "sessions/:", title: "Session", load: session },
  { pattern: "sessions/:/checkpoints/:", title: "Checkpoint", load: session },
  {
    pattern: "sessions/:/checkpoints/:/edit",
    title: "Edit and fork",
    load: () => import("../views/what-if/what-if.js").then((module) => module.WhatIf),
  },
  { pattern: "sessions/:/timeline", title: "Timeline", load: session },
  { pattern: "sessions/:/journal", title: "Journal", load: session },
  {
    pattern: "questions",
    title: "Questions",
    load: () => import("../views/questions.js").then((module) => module.Questions),
  },
  {
    pattern: "queue",
    title: "Workers and queue",
    load: () => import("../views/queue.js").then((module) => module.Queue),
  },
  {
    pattern: "conversations",
    title: "Conversations",
    load: () => import("../views/conversations.js").then((module) => module.Conversations),
  },
  {
    pattern: "conversations/:",
    title: "Conversation",
    load: () => import("../views/conversations.js").then((module) => module.Conversation),
  },
  { pattern: "agents", title: "Agents", load: () => import("../views/agents.js").then((module) => module.Agents) },
  { pattern: "agents/:", title: "Agent", load: () => import("../views/agents.js").then((module) => module.Agent) },
  { pattern: "restore", title: "Restore", load: () => import("../views/restore.js").then((module) => module.Restore) },
  { pattern: "search", title: "Search", load: () => import("../views/search.js").then((module) => module.Search) },
  { pattern: "store", title: "Store", load: () => import("../views/store/store.js").then((module) => module.Store) },
  {
    pattern: "store/retention",
    title: "Retention",
    load: () => import("../views/store/retention.js").then((module) => module.Retention),
  },
  {
    pattern: "store/damage",
    title: "Damage",
    load: () => import("../views/store/damage.js").then((module) => module.Damage),
  },
];

function match(pattern: string, segments: readonly string[]): readonly string[] | undefined {
  const parts = pattern.split("/");
  if (parts.length !== segments.length) return undefined;
  const ids: string[] = [];
  for (const [index, part] of parts.entries()) {
    const segment = segments[index] as string;
    if (part === ":") ids.push(segment);
    else if (part !== segment) return undefined;
  }
  return ids;
}

/** The views that were loaded. Paths of one view share its component, so that it stays when its path changes. */
const loaded = new Map<Route["load"], View>();

export function CurrentView({ place: { segments, query } }: { readonly place: Place }): JSX.Element {
  for (const route of ROUTES) {
    const ids = match(route.pattern, segments);
    if (ids)
      return (
        <LoadedView key={route.load === session ? "session" : route.pattern} route={route} ids={ids} query={query} />
      );
  }
  if (segments.length === 0) return <TitledView title="Sessions" view={Sessions} ids={[]} query={query} />;
  return (
    <Empty icon="search" title="This view does not exist">
      <p>
        <Link to={paths.sessions}>Show the sessions</Link>
      </p>
    </Empty>
  );
}

function LoadedView({ route, ...props }: ViewProps & { readonly route: Route }): JSX.Element {
  const [, update] = useState(0);
  const [failure, setFailure] = useState<ApiFailure | undefined>();
  const view = loaded.get(route.load);
  useEffect(() => {
    if (view) return;
    route.load().then(
      (each) => {
        loaded.set(route.load, each);
        update((version) => version + 1);
      },
      () => setFailure(new ApiFailure(0, "UNREACHABLE", "This part of the page could not be loaded. Reload the page.")),
    );
  }, [route, view]);
  if (failure) return <Failure failure={failure} />;
  if (!view) return <Skeleton lines={8} />;
  return <TitledView title={route.title} view={view} {...props} />;
}

function TitledView({
  title,
  view: View,
  ids,
  query,
}: ViewProps & { readonly title: string; readonly view: View }): JSX.Element {
  const [first] = ids;
  useEffect(() => {
    document.title = first === undefined ? `${title} · Savepoint` : `${first} · ${title} · Savepoint`;
  }, [title, first]);
  return <View ids={ids} query={query} />;
}
