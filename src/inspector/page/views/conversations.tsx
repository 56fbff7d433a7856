/** Conversations: their list, and their messages. */
import type { JSX } from "preact";
import type { ConversationDetail, ConversationView, MessagePage, Page } from "../../api.js";
import { encodeId } from "../../api.js";
import { get, withParameters } from "../api/client.js";
import { usePages } from "../api/pages.js";
import { useResource } from "../api/resource.js";
import { Link, paths, setQuery } from "../app/router.js";
import type { ViewProps } from "../app/views.js";
import { formatNumber, plural } from "../ui/format.js";
import { Icon } from "../ui/icon.js";
import { JsonTree } from "../ui/json-tree.js";
import { More } from "../ui/more.js";
import { Callout, Command, Empty, Failure, Skeleton } from "../ui/states.js";
import { Switch } from "../ui/tabs.js";
import { Tag, Time } from "../ui/text.js";
import { MessageList } from "./session/messages.js";

type Shown = "active" | "archived" | "all";

export function Conversations({ query }: ViewProps): JSX.Element {
  const agent = query.get("agent") ?? undefined;
  const tag = query.get("tag") ?? undefined;
  const shown = (query.get("shown") ?? "active") as Shown;
  const archived = shown === "all" ? undefined : shown === "archived";
  const pages = usePages<Page<ConversationView>, ConversationView>(
    "/api/conversations",
    { agent, tag, archived, limit: 100 },
    (page) => page,
    ({ id }) => id,
  );
  const { entries, isLoaded } = pages;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Conversations">
      <header class="view-head">
        <h1>Conversations</h1>
      </header>
      <div class="filters">
        <Switch
          label="Which conversations"
          value={shown}
          options={[
            ["active", "Active"],
            ["archived", "Archived"],
            ["all", "All"],
          ]}
          onChange={(value) => setQuery({ shown: value === "active" ? undefined : value })}
        />
        {agent !== undefined && <Clear name={`Agent: ${agent}`} onClick={() => setQuery({ agent: undefined })} />}
        {tag !== undefined && <Clear name={`Tag: ${tag}`} onClick={() => setQuery({ tag: undefined })} />}
      </div>
      <div class="page">
        {!isLoaded && !pages.failure && <Skeleton lines={6} />}
        {isLoaded && entries.length === 0 && (
          <Empty icon="conversation" title="No conversations here">
            <p>A conversation keeps the messages of an agent, over all of its sessions.</p>
            <Command>{`await sp.conversations.append("chat-1", message.user("Hello"))`}</Command>
          </Empty>
        )}
        <ul class="list">
          {entries.map((conversation) => (
            <ConversationLine key={conversation.id} conversation={conversation} />
          ))}
        </ul>
        <More pages={pages} name="conversations" />
      </div>
    </div>
  );
}

function Clear({ name, onClick }: { readonly name: string; readonly onClick: () => void }): JSX.Element {
  return (
    <button type="button" class="chip" aria-pressed="true" aria-label={`${name}. Remove this filter`} onClick={onClick}>
      {name}
      <Icon name="cross" />
    </button>
  );
}

function ConversationLine({ conversation }: { readonly conversation: ConversationView }): JSX.Element {
  const { id, title, agent, tags, archived, lastMessageAt, messageCount } = conversation;
  return (
    <li class="list-row">
      <div class="list-main">
        <Link to={paths.conversation(id)} class="row-link">
          {title ?? id}
        </Link>
        <div class="session-facts">
          <span>{plural(messageCount, "message")}</span>
          {agent !== undefined && <span>{agent}</span>}
          {archived && <Tag>archived</Tag>}
          {tags.map((tag) => (
            <Tag key={tag} kind="accent">
              {tag}
            </Tag>
          ))}
        </div>
      </div>
      <span class="faint">
        <Time at={lastMessageAt} />
      </span>
    </li>
  );
}

export function Conversation({ ids: [id = ""] }: ViewProps): JSX.Element {
  const path = `/api/conversations/${encodeId(id)}`;
  const { data, failure, reload } = useResource<ConversationDetail>(path);
  if (failure) return <Failure failure={failure} retry={reload} />;
  if (!data) return <Skeleton lines={8} />;
  const { conversation, messages, holes } = data;
  const load = async (before: number): Promise<MessagePage> =>
    (await get<ConversationDetail>(withParameters(path, { before }))).messages;
  return (
    <div class="view">
      <header class="session-head">
        <Link to={paths.conversations} class="back">
          <Icon name="left" />
          Conversations
        </Link>
        <h1>{conversation.title ?? id}</h1>
        <p class="session-facts">
          <span class="mono">{id}</span>
          {conversation.agent !== undefined && (
            <Link to={withParameters(paths.conversations, { agent: conversation.agent })}>{conversation.agent}</Link>
          )}
          <span>{formatNumber(conversation.messageCount)} messages</span>
          <span>
            created <Time at={conversation.createdAt} />
          </span>
          {conversation.archived && <Tag>archived</Tag>}
          {conversation.tags.map((tag) => (
            <Link key={tag} to={withParameters(paths.conversations, { tag })}>
              <Tag kind="accent">{tag}</Tag>
            </Link>
          ))}
        </p>
        {Object.keys(conversation.metadata).length > 0 && (
          <details>
            <summary class="muted">Metadata</summary>
            <JsonTree value={conversation.metadata as Parameters<typeof JsonTree>[0]["value"]} />
          </details>
        )}
      </header>
      {holes.length > 0 && (
        <Callout kind="bad" title={`${plural(holes.length, "message")} cannot be read`}>
          {holes.slice(0, 10).map(({ index, reason }) => (
            <p key={index}>
              Message {index}: {reason}
            </p>
          ))}
        </Callout>
      )}
      <div class="scroll" tabIndex={0} role="region" aria-label="Messages">
        <MessageList key={id} first={messages} load={load} />
      </div>
    </div>
  );
}
