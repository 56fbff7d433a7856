/** The messages of a state as a chat. All texts are shown as text, never as HTML. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { CheckpointDetail, MessagePage, MessageView, ToolCallView } from "../../../api.js";
import { get, sessionPath, withParameters } from "../../api/client.js";
import { useAction } from "../../ui/action.js";
import { formatNumber, plural } from "../../ui/format.js";
import { Icon, type IconName } from "../../ui/icon.js";
import { JsonTree } from "../../ui/json-tree.js";
import { Tag, Time } from "../../ui/text.js";

export function Messages({ id, detail }: { readonly id: string; readonly detail: CheckpointDetail }): JSX.Element {
  const { checkpoint, messages } = detail;
  if (!messages || messages.total === 0) {
    return <p class="faint messages-none">This state has no list of messages. It is shown as a tree under State.</p>;
  }
  const load = (before: number): Promise<MessagePage> =>
    get(withParameters(sessionPath(id, "/messages"), { at: checkpoint.seq, before }));
  return <MessageList key={checkpoint.id} first={messages} load={load} />;
}

/** Messages, oldest first; it begins at the end, and older ones are loaded on request. */
export function MessageList({
  first,
  load,
  after,
}: {
  readonly first: MessagePage;
  readonly load: (before: number) => Promise<MessagePage>;
  /** What is shown in a message, such as a button. */
  readonly after?: (message: MessageView) => ComponentChildren;
}): JSX.Element {
  const [older, setOlder] = useState<readonly MessagePage[]>([]);
  const { isBusy, run } = useAction();
  const end = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    // Beside a state, the messages scroll alone.
    const chat = end.current?.parentElement;
    const body = chat?.closest<HTMLElement>(".checkpoint-body:not(.both), .scroll") ?? chat;
    if (body) body.scrollTop = body.scrollHeight;
  }, []);
  const oldest = older[0] ?? first;
  const all = [...older, first].flatMap(({ messages }) => messages);
  return (
    <div class="chat" tabIndex={0}>
      {oldest.before !== undefined && (
        <button
          type="button"
          class="button small chat-older"
          disabled={isBusy}
          onClick={() =>
            run(async () => {
              const page = await load(oldest.before as number);
              setOlder((pages) => [page, ...pages]);
            })
          }
        >
          {plural(oldest.before, "older message")}
        </button>
      )}
      {all.map((message) => (
        <Message key={message.index} message={message}>
          {after?.(message)}
        </Message>
      ))}
      <div ref={end} />
    </div>
  );
}

const ROLES: Readonly<Record<string, readonly [IconName, string]>> = {
  system: ["lock", "System"],
  user: ["user", "User"],
  assistant: ["spark", "Assistant"],
  tool: ["tool", "Tool"],
};

function Message({
  message,
  children,
}: {
  readonly message: MessageView;
  readonly children?: ComponentChildren;
}): JSX.Element {
  const { role, text, timestamp, toolCalls, textLength, resultOf, index } = message;
  const [icon, name] = ROLES[role] ?? ["dot", role];
  return (
    <article class={`message role-${role}`} aria-label={`Message ${index}, ${name}`}>
      <header>
        <Icon name={icon} />
        <span class="message-role">{name}</span>
        {resultOf !== undefined && <Tag>{`result of ${resultOf}`}</Tag>}
        {timestamp !== undefined && (
          <span class="faint">
            <Time at={timestamp} />
          </span>
        )}
        <span class="spacer" />
        {children}
      </header>
      {text !== "" && <LongText text={text} length={textLength} />}
      {toolCalls.map((call) => (
        <ToolCall key={call.id} call={call} />
      ))}
    </article>
  );
}

/** Longer texts are folded, in characters. */
const MAX_TEXT = 1600;

export function LongText({
  text,
  length,
}: {
  readonly text: string;
  readonly length?: number | undefined;
}): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const isLong = text.length > MAX_TEXT;
  return (
    <div class="message-text">
      {isLong && !isOpen ? `${text.slice(0, MAX_TEXT)}…` : text}
      {isLong && (
        <button type="button" class="link message-more" onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Show less" : `Show all ${formatNumber(text.length)} characters`}
        </button>
      )}
      {length !== undefined && (isOpen || !isLong) && (
        <span class="faint message-more">
          The first {formatNumber(text.length)} of {formatNumber(length)} characters. The rest is in the state.
        </span>
      )}
    </div>
  );
}

/** A tool call in one line; opened, its arguments and its result. */
function ToolCall({ call }: { readonly call: ToolCallView }): JSX.Element {
  const { name, result, status } = call;
  const [isOpen, setOpen] = useState(false);
  const details = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const element = details.current;
    const toggle = (): void => setOpen(element?.open ?? false);
    element?.addEventListener("toggle", toggle);
    return () => element?.removeEventListener("toggle", toggle);
  }, []);
  return (
    <details class="tool-call" ref={details}>
      <summary>
        <Icon name="chevron" />
        <code class="tool-name">{name}</code>
        <span class="tool-arguments clip">{summarize(call.arguments)}</span>
        {result ? (
          <span class="tool-result clip">→ {firstLine(result.text)}</span>
        ) : (
          <Tag kind="warn">{status === "failed" ? "failed" : "no result"}</Tag>
        )}
      </summary>
      {isOpen && (
        <div class="tool-body">
          <p class="caption">Arguments</p>
          {call.arguments === undefined ? (
            <p class="faint">none</p>
          ) : (
            <JsonTree value={call.arguments} tools={{ depth: 2 }} />
          )}
          <p class="caption">Result</p>
          {result ? (
            <LongText text={result.text} length={result.textLength} />
          ) : (
            <p class="faint">The tool has not returned yet.</p>
          )}
        </div>
      )}
    </details>
  );
}

function summarize(value: ToolCallView["arguments"]): string {
  if (value === undefined || value === null) return "()";
  const text =
    typeof value === "object" && !Array.isArray(value)
      ? Object.entries(value)
          .map(([key, each]) => `${key}: ${JSON.stringify(each)}`)
          .join(", ")
      : JSON.stringify(value);
  return `(${text.length > 120 ? `${text.slice(0, 120)}…` : text})`;
}

function firstLine(text: string): string {
  const [line = ""] = text.trim().split("\n", 1);
  return line.length > 140 ? `${line.slice(0, 140)}…` : line === "" ? "(empty)" : line;
}
