// The chat: conversations at the side, the one that is shown, and the field to write in.
import { useEffect, useRef, useState } from "preact/hooks";
import * as tree from "../lib/conversation.js";
import { useStore } from "../lib/store_base.js";
import { Dialog, download } from "../lib/widgets.jsx";
import { chats } from "./chats.js";
import { Composer } from "./Composer.jsx";
import { Message } from "./Message.jsx";
import { ModelPicker, Panel } from "./Panel.jsx";
import { Sidebar } from "./Sidebar.jsx";

export function Chat() {
  useStore(chats);
  const [panel, showPanel] = useState(false);
  const [side, showSide] = useState(false); // on phones it is over the conversation
  const conversation = chats.conversation();
  const messages = conversation ? tree.path(conversation) : [];
  const log = useRef(null);
  const follows = useRef(true);
  // Follows the answer, unless the reader has scrolled up.
  useEffect(() => {
    if (follows.current) log.current.scrollTop = log.current.scrollHeight;
  });
  useEffect(() => {
    follows.current = true;
  }, [chats.current, messages.length]);
  const scrolled = () => {
    const { scrollTop, scrollHeight, clientHeight } = log.current;
    follows.current = scrollHeight - scrollTop - clientHeight < 60;
  };
  return (
    <div class={`chat ${side ? "side-open" : ""}`}>
      <Sidebar onOpen={() => showSide(false)} />
      <main class="conversation">
        <div class="bar">
          <button type="button" class="quiet only-phone" aria-label="Conversations" aria-expanded={side} onClick={() => showSide(!side)}>☰</button>
          <ModelPicker />
          <button type="button" class="quiet" onClick={() => showPanel(true)}>Sampling</button>
          {conversation && <button type="button" class="quiet hide-phone" onClick={() => download(`${(conversation.title || "conversation").replace(/[^\w.-]+/g, "-")}.json`, chats.exportAll([conversation.id]))}>Export</button>}
        </div>
        {chats.problem && <p class="problem" role="alert">{chats.problem}</p>}
        <div class="log" ref={log} onScroll={scrolled} role="log" aria-label="Conversation" tabIndex={0}>
          {messages.length === 0 && <div class="hello"><h1>What shall we talk about?</h1><p>What you write stays between this browser and this server.</p></div>}
          {messages.map((message) => <Message key={message.id} conversation={conversation} message={message} />)}
        </div>
        <Composer />
      </main>
      {panel && <Dialog title="Sampling and system message" onClose={() => showPanel(false)}><Panel /></Dialog>}
    </div>
  );
}
