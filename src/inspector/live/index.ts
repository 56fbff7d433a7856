/** Live events for clients: topics that are polled while a client follows them, and the streams that carry their changes. */
export { LiveHub } from "./hub.js";
export { SessionTopic } from "./session-topic.js";
export { SessionsTopic } from "./sessions-topic.js";
export { QueueTopic, StoreTopic } from "./store-topics.js";
export type { Topic } from "./topic.js";
