/** The links to all views, the state of the connection, and the settings of the page. */
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { connection, useLive } from "../api/live.js";
import { canWrite, meta } from "../api/meta.js";
import { Icon, type IconName } from "../ui/icon.js";
import { isNarrow } from "../ui/media.js";
import { Link, paths, place } from "./router.js";
import { isHelpOpen } from "./shortcuts.js";
import { nextTheme, theme } from "./theme.js";

/** How many sessions wait for an answer, and how many there are. */
export const counts = signal<{ readonly asking: number; readonly total: number } | undefined>(undefined);

interface Target {
  readonly name: string;
  readonly to: string;
  readonly icon: IconName;
  /** The first segments of the paths that belong to it. */
  readonly segments: readonly string[];
}

const TARGETS: readonly Target[] = [
  { name: "Sessions", to: paths.sessions, icon: "sessions", segments: ["", "sessions"] },
  { name: "Questions", to: paths.questions, icon: "question", segments: ["questions"] },
  { name: "Workers and queue", to: paths.queue, icon: "queue", segments: ["queue"] },
  { name: "Conversations", to: paths.conversations, icon: "conversation", segments: ["conversations"] },
  { name: "Agents", to: paths.agents, icon: "agent", segments: ["agents", "restore"] },
  { name: "Search", to: paths.search, icon: "search", segments: ["search"] },
  { name: "Store", to: paths.store, icon: "store", segments: ["store"] },
];

export function Navigation({
  isOpen,
  onToggle,
}: {
  readonly isOpen: boolean;
  readonly onToggle: () => void;
}): JSX.Element {
  useLive("sessions", { sessions: ({ asking, total }) => (counts.value = { asking, total }) });
  const current = place.value.segments[0] ?? "";
  return (
    <header
      class={isOpen ? "side is-open" : "side"}
      onKeyDown={(event) => event.key === "Escape" && isOpen && onToggle()}
    >
      <div class="side-top">
        <Link to={paths.sessions} class="brand" aria-label="Savepoint: sessions">
          <Logo />
          <span>Savepoint</span>
        </Link>
        <Connection />
        <button
          type="button"
          class="button icon-only ghost menu"
          aria-label="Menu"
          aria-expanded={isOpen}
          aria-controls="navigation"
          onClick={onToggle}
        >
          <Icon name={isOpen ? "cross" : "menu"} />
        </button>
      </div>
      {(isOpen || !isNarrow.value) && (
        <div class="side-body" id="navigation">
          <nav aria-label="Views">
            {TARGETS.map(({ name, to, icon, segments }) => (
              <Link key={name} to={to} class="side-link" aria-current={segments.includes(current) ? "page" : undefined}>
                <Icon name={icon} />
                <span>{name}</span>
                {name === "Questions" && (counts.value?.asking ?? 0) > 0 && (
                  <span class="count attention" title="Sessions that wait for an answer">
                    {counts.value?.asking}
                  </span>
                )}
              </Link>
            ))}
          </nav>
          <Footer />
        </div>
      )}
    </header>
  );
}

function Footer(): JSX.Element {
  const { version, url } = meta.value ?? { version: "", url: "" };
  return (
    <div class="side-foot">
      <p
        class={canWrite() ? "mode" : "mode read-only"}
        title={canWrite() ? undefined : "Start it with --write to allow changes."}
      >
        <Icon name={canWrite() ? "edit" : "lock"} />
        {canWrite() ? "Changes are allowed" : "Read-only"}
      </p>
      <p class="store-url" title={url}>
        {url}
      </p>
      <div class="row">
        <span class="faint">{version === "" ? "" : `v${version}`}</span>
        <span class="spacer" />
        <button
          type="button"
          class="button icon-only ghost"
          aria-label={`Theme: ${theme.value}. Change it`}
          title={`Theme: ${theme.value}`}
          onClick={nextTheme}
        >
          <Icon name={theme.value === "auto" ? "auto" : theme.value === "light" ? "sun" : "moon"} />
        </button>
        <button
          type="button"
          class="button icon-only ghost"
          aria-label="Keyboard shortcuts"
          title="Keyboard shortcuts (?)"
          onClick={() => (isHelpOpen.value = true)}
        >
          <Icon name="help" />
        </button>
      </div>
    </div>
  );
}

const CONNECTION = {
  connecting: ["Connecting", "The stream of changes is being opened."],
  live: ["Live", "Changes of all processes are shown as they happen."],
  lost: ["Reconnecting", "The inspector does not respond. The data may be outdated."],
} as const;

function Connection(): JSX.Element {
  const [text, title] = CONNECTION[connection.value];
  return (
    <span class={`connection ${connection.value}`} role="status" title={title}>
      <span class="pulse" aria-hidden="true" />
      {text}
    </span>
  );
}

function Logo(): JSX.Element {
  return (
    <svg class="logo" viewBox="0 0 20 20" aria-hidden="true">
      <path class="logo-line" d="M6 3.500v13M6 12c5.500 0 8-1.500 8-5" />
      <circle cx="6" cy="4" r="2.200" />
      <circle cx="6" cy="16" r="2.200" />
      <circle class="logo-fork" cx="14" cy="6" r="2.200" />
    </svg>
  );
}
