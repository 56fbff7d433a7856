/** Agents: their list, what they are, and their checkpoints. */
import type { JSX } from "preact";
import { type AgentCheckpointView, type AgentDetail, type AgentRow, encodeId, type Page } from "../../api.js";
import { withParameters } from "../api/client.js";
import { usePages } from "../api/pages.js";
import { useResource } from "../api/resource.js";
import type { Json } from "../api/types.js";
import { Link, paths } from "../app/router.js";
import type { ViewProps } from "../app/views.js";
import { plural } from "../ui/format.js";
import { Icon } from "../ui/icon.js";
import { JsonTree } from "../ui/json-tree.js";
import { More } from "../ui/more.js";
import { Callout, Command, Empty, Failure, Skeleton } from "../ui/states.js";
import { Bytes, Tag, Time } from "../ui/text.js";
import { LongText } from "./session/messages.js";

export function Agents(): JSX.Element {
  const pages = usePages<Page<AgentRow>, AgentRow>(
    "/api/agents",
    { limit: 100 },
    (page) => page,
    ({ id }) => id,
  );
  const { entries, isLoaded } = pages;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Agents">
      <header class="view-head">
        <h1>Agents</h1>
      </header>
      <div class="page">
        {!isLoaded && !pages.failure && <Skeleton lines={5} />}
        {isLoaded && entries.length === 0 && (
          <Empty icon="agent" title="No saved agents">
            <p>
              A saved agent has a system prompt, a configuration and a durable state of its own. A checkpoint of it
              includes all of its conversations.
            </p>
            <Command>{`await sp.agents.save({ id: "support", name: "Support" })`}</Command>
          </Empty>
        )}
        <ul class="list">
          {entries.map((agent) => (
            <li key={agent.id} class="list-row">
              <div class="list-main">
                <Link to={paths.agent(agent.id)} class="row-link">
                  {agent.name}
                </Link>
                <div class="session-facts">
                  <span class="mono">{agent.id}</span>
                  {agent.type !== undefined && <span>{agent.type}</span>}
                  <span>version {agent.version}</span>
                  {agent.capabilities.slice(0, 6).map((each) => (
                    <Tag key={each}>{each}</Tag>
                  ))}
                </div>
              </div>
              <span class="faint">
                <Time at={agent.modifiedAt} />
              </span>
            </li>
          ))}
        </ul>
        <More pages={pages} name="agents" />
      </div>
    </div>
  );
}

export function Agent({ ids: [id = ""] }: ViewProps): JSX.Element {
  const path = `/api/agents/${encodeId(id)}`;
  const { data, failure, reload } = useResource<AgentDetail>(path);
  if (failure) return <Failure failure={failure} retry={reload} />;
  if (!data) return <Skeleton lines={8} />;
  const { agent, systemPrompt, config, state, activeConversations, skipped } = data;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={`Agent ${agent.name}`}>
      <header class="session-head">
        <Link to={paths.agents} class="back">
          <Icon name="left" />
          Agents
        </Link>
        <h1>{agent.name}</h1>
        <p class="session-facts">
          <span class="mono">{agent.id}</span>
          {agent.type !== undefined && <span>{agent.type}</span>}
          <span>version {agent.version}</span>
          <span>
            changed <Time at={agent.modifiedAt} />
          </span>
          {agent.capabilities.map((each) => (
            <Tag key={each}>{each}</Tag>
          ))}
        </p>
        <p class="row wrap">
          <Link to={withParameters(paths.sessions, { agent: agent.id })}>Sessions</Link>
          <Link to={withParameters(paths.conversations, { agent: agent.id })}>
            {plural(activeConversations.length, "active conversation")}
          </Link>
        </p>
      </header>
      <div class="page">
        {skipped.length > 0 && (
          <Callout kind="bad" title={`${plural(skipped.length, "newer version")} cannot be read`}>
            {skipped.map(({ seq, reason }) => (
              <p key={seq}>
                #{seq}: {reason}
              </p>
            ))}
          </Callout>
        )}
        <section class="section">
          <h2>System prompt</h2>
          {systemPrompt === undefined ? <p class="faint">none</p> : <LongText text={systemPrompt} />}
        </section>
        <section class="section columns">
          <div>
            <h2>Configuration</h2>
            <JsonTree value={config} tools={{ depth: 2 }} />
          </div>
          <div>
            <h2>State</h2>
            <JsonTree value={state} tools={{ depth: 2 }} />
          </div>
        </section>
        {Object.keys(agent.metadata).length > 0 && (
          <section class="section">
            <h2>Metadata</h2>
            <JsonTree value={agent.metadata as Json} />
          </section>
        )}
        <AgentCheckpoints id={id} />
      </div>
    </div>
  );
}

function AgentCheckpoints({ id }: { readonly id: string }): JSX.Element {
  const pages = usePages<Page<AgentCheckpointView>, AgentCheckpointView>(
    `/api/agents/${encodeId(id)}/checkpoints`,
    { limit: 50 },
    (page) => page,
    (checkpoint) => checkpoint.id,
  );
  const { entries, isLoaded } = pages;
  return (
    <section class="section">
      <h2>Checkpoints of the agent</h2>
      {isLoaded && entries.length === 0 && (
        <div class="panel teach">
          <p>
            None yet. A checkpoint contains the agent and all of its conversations, so that they can be restored
            together:
          </p>
          <Command>{`await sp.checkpoints.create({ agent: ${JSON.stringify(id)}, label: "before the update" })`}</Command>
        </div>
      )}
      <ul class="list">
        {entries.map((each) => (
          <li key={each.id} class="list-row">
            <div class="list-main">
              <strong>{each.label ?? each.description ?? each.trigger ?? `version ${each.seq}`}</strong>
              <div class="session-facts">
                <span>#{each.seq}</span>
                <Tag>{each.kind === "preOperation" ? "before an operation" : each.kind}</Tag>
                {each.pinned && <Tag kind="accent">pinned</Tag>}
                <Bytes value={each.stateBytes} />
                <Time at={each.createdAt} />
              </div>
            </div>
            <Link to={paths.restore(each.id)} class="button small">
              <Icon name="rewind" />
              Restore …
            </Link>
          </li>
        ))}
      </ul>
      <More pages={pages} name="checkpoints" />
    </section>
  );
}
