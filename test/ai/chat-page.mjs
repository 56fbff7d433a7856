// @ts-nocheck: React's types are not installed. The page is bundled and run by chat.browser.ts.
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { createElement as h, StrictMode, useRef, useState } from "react";
import { createRoot } from "react-dom/client";

/** A chat as on docs/chat.md. The server has put the stored messages into the page. */
function Chat({ id, messages: initial }) {
  const reload = useRef();
  const createTransport = () =>
    new DefaultChatTransport({
      fetch: async (url, init) => {
        const response = await fetch(url, init);
        // No reply is in progress any more. It may have been completed since the messages were loaded.
        if (response.status === 204) await reload.current();
        return response;
      },
    });
  const [transport] = useState(createTransport);
  const chat = useChat({
    id,
    transport,
    messages: initial,
    resume: true,
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  reload.current = async () => chat.setMessages((await (await fetch("/api/chat")).json()).messages);
  const { messages, sendMessage, addToolApprovalResponse, stop, status, error } = chat;
  const toPart = (part, index) => {
    if (part.type === "text") return part.text;
    if (!part.type.startsWith("tool-")) return null;
    const approve = () => addToolApprovalResponse({ id: part.approval.id, approved: true });
    const isAsked = part.state === "approval-requested";
    return isAsked
      ? h("button", { key: index, id: "approve", onClick: approve }, "Approve")
      : `[${part.output ?? ""}] `;
  };
  return h(
    "main",
    null,
    messages.map(({ id: key, role, parts }) => h("article", { key, className: role }, parts.map(toPart))),
    h("button", { id: "send", onClick: () => sendMessage({ text: "charge" }) }, "Send"),
    h("button", { id: "stop", onClick: () => stop() }, "Stop"),
    h("p", { id: "status" }, status),
    h("p", { id: "error" }, error?.message),
  );
}

createRoot(document.getElementById("root")).render(h(StrictMode, null, h(Chat, JSON.parse(window.chat))));
