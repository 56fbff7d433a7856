/** Events of the server: one stream for all subscriptions of the page, which reconnects. */
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { LiveEventName, LiveEvents } from "../../api.js";
import { authorization, isSignedOut } from "./base.js";
import { send, toFailure, withParameters } from "./client.js";
import { EventParser } from "./event-parser.js";

/** The state of the connection, as it is shown. */
export const connection = signal<"connecting" | "live" | "lost">("connecting");
/** How far the clock of the server is ahead, in milliseconds. */
export const clockOffset = signal(0);

/** A stream that is silent for this long is dead, in milliseconds. */
const MAX_SILENCE = 45_000;
const [MIN_PAUSE, MAX_PAUSE] = [500, 8000];

type Handler = (name: LiveEventName, data: unknown) => void;
interface Subscription {
  readonly topic: string;
  readonly handler: Handler;
  /** Whether a stream with this topic was opened since it began. */
  isOpen: boolean;
}

const subscriptions = new Set<Subscription>();
let lastId: string | undefined;
let stream: AbortController | undefined;
let openTopics = "";
let scheduled: ReturnType<typeof setTimeout> | undefined;
let pause = MIN_PAUSE;

/** Handlers of events, by name. */
export type LiveHandlers = { readonly [Name in LiveEventName]?: (data: LiveEvents[Name]) => void };

/**
 * Calls handlers with the events of a topic while the component is shown. `reset` is called when events may have been missed: after
 * the stream has begun, and when the server cannot send what was missed.
 */
export function useLive(topic: string | undefined, handlers: LiveHandlers): void {
  const current = useRef(handlers);
  current.current = handlers;
  useEffect(() => {
    if (topic === undefined) return undefined;
    const handler: Handler = (name, data) => {
      const handle = current.current[name] as ((data: unknown) => void) | undefined;
      handle?.(data);
    };
    const subscription: Subscription = { topic, handler, isOpen: false };
    subscriptions.add(subscription);
    schedule(20);
    return () => {
      subscriptions.delete(subscription);
      schedule(200);
    };
  }, [topic]);
}

/** Opens a stream with the current topics, unless it is open. */
function schedule(delay: number): void {
  clearTimeout(scheduled);
  scheduled = setTimeout(() => {
    const topics = currentTopics();
    if (topics === openTopics && stream) {
      for (const each of subscriptions) openSubscription(each);
      return;
    }
    void open(topics);
  }, delay);
}

function currentTopics(): string {
  return [...new Set(Array.from(subscriptions, ({ topic }) => topic))].sort().join(",");
}

/** A subscription that was added to an open stream has missed what happened before. */
function openSubscription(subscription: Subscription): void {
  if (subscription.isOpen) return;
  subscription.isOpen = true;
  subscription.handler("reset", {});
}

async function open(topics: string): Promise<void> {
  stream?.abort();
  stream = undefined;
  openTopics = topics;
  if (topics === "") return;
  const controller = new AbortController();
  stream = controller;
  try {
    await read(topics, controller);
  } catch (error) {
    if (!(error instanceof Error)) throw error;
  }
  if (stream !== controller) return;
  stream = undefined;
  if (isSignedOut.value) return;
  connection.value = "lost";
  pause = Math.min(MAX_PAUSE, pause * 2);
  schedule(document.visibilityState === "visible" ? pause : MAX_PAUSE);
}

async function read(topics: string, controller: AbortController): Promise<void> {
  const headers = { ...authorization(), ...(lastId !== undefined && { "last-event-id": lastId }) };
  const response = await send(withParameters("/api/events", { topics }), { headers, signal: controller.signal });
  if (!response.ok || !response.body) throw await toFailure(response);
  connection.value = "live";
  pause = MIN_PAUSE;
  for (const each of subscriptions) openSubscription(each);
  let watchdog = setTimeout(() => controller.abort(), MAX_SILENCE);
  const parser = new EventParser();
  const reader = response.body
    .pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)
    .getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done || controller.signal.aborted) return;
      clearTimeout(watchdog);
      watchdog = setTimeout(() => controller.abort(), MAX_SILENCE);
      for (const { id, name, data } of parser.push(value)) {
        if (id !== undefined) lastId = id;
        dispatch(name as LiveEventName, JSON.parse(data));
      }
    }
  } finally {
    clearTimeout(watchdog);
  }
}

function dispatch(name: LiveEventName, data: unknown): void {
  if (name === "hello") clockOffset.value = (data as LiveEvents["hello"]).now - Date.now();
  for (const { handler } of subscriptions) handler(name, data);
}

// A page that was hidden or offline reconnects at once.
const reconnect = (): void => {
  if (!stream && document.visibilityState === "visible") schedule(0);
};
document.addEventListener("visibilitychange", reconnect);
window.addEventListener("online", reconnect);
