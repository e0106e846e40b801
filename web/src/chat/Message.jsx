// One message: text, reasoning, calls of tools, figures, and what can be done with it.
import { useEffect, useRef, useState } from "preact/hooks";
import * as tree from "../lib/conversation.js";
import { plural, rate, seconds } from "../lib/units.js";
import { CopyButton, Markdown } from "../lib/widgets.jsx";
import { chats } from "./chats.js";

export function Message({ conversation, message }) {
  const [editing, edit] = useState(false);
  const mine = message.role === "user";
  const busy = chats.isRunning();
  if (editing) return <Editor message={message} onDone={() => edit(false)} />;
  return (
    <article class={`message ${message.role}`} aria-label={mine ? "You" : message.role === "tool" ? `Result of ${message.name}` : "Answer"} aria-busy={message.pending || undefined}>
      {(message.files ?? []).map((file) => (
        <details class="file" key={file.name}><summary>{file.name} · {plural(file.text.split("\n").length, "line")}</summary><pre tabIndex={0}>{file.text}</pre></details>
      ))}
      {message.reasoning && <Reasoning message={message} />}
      {message.role === "tool" ? <pre tabIndex={0}>{message.content}</pre> : mine ? <div class="text">{message.content}</div> : <Markdown text={message.content} />}
      {(message.calls ?? []).map((call) => <Call key={call.id} conversation={conversation} message={message} call={call} />)}
      {message.pending && !message.content && !message.reasoning && <Waiting began={message.began} progress={message.progress} />}
      {message.cut && <p class="note">{message.cut}</p>}
      {message.finish === "length" && <p class="note">Cut: the longest answer that was allowed, or the end of the context.</p>}
      {message.problem && (
        <p class="problem" role="alert">{message.problem.words} <button type="button" disabled={busy} onClick={() => chats.again(message)}>Try again</button></p>
      )}
      <footer>
        <Branches conversation={conversation} message={message} />
        {!message.pending && message.content && <CopyButton text={message.content} />}
        {mine && <button type="button" class="quiet" disabled={busy} onClick={() => edit(true)}>Edit</button>}
        {message.role === "assistant" && !message.pending && !message.problem && <button type="button" class="quiet" disabled={busy} onClick={() => chats.again(message)}>Regenerate</button>}
        <Figures message={message} />
      </footer>
    </article>
  );
}

function Editor({ message, onDone }) {
  const area = useRef(null);
  const [text, set] = useState(message.content);
  useEffect(() => area.current.focus(), []);
  const send = () => {
    onDone();
    chats.send(text, message.files ?? [], message);
  };
  const keys = (e) => {
    if (e.key === "Escape") onDone();
    if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
      e.preventDefault();
      if (text.trim()) send();
    }
  };
  return (
    <div class="message user editor">
      <textarea ref={area} aria-label="Edit message" rows={Math.min(12, text.split("\n").length + 1)} value={text} onInput={(e) => set(e.target.value)} onKeyDown={keys} />
      <footer><button type="button" onClick={send} disabled={!text.trim()}>Send</button><button type="button" class="quiet" onClick={onDone}>Cancel</button></footer>
    </div>
  );
}

function Reasoning({ message }) {
  const running = message.pending && !message.content;
  return (
    <details class="reasoning">
      <summary>{running ? "Thinking…" : "Reasoning"} · {plural(message.reasoning.trim().split(/\s+/).length, "word")}</summary>
      <div class="text">{message.reasoning}</div>
    </details>
  );
}

function Call({ conversation, message, call }) {
  const [result, set] = useState("");
  const answered = tree.path(conversation).some((m) => m.role === "tool" && m.call === call.id);
  return (
    <div class="call">
      <strong>Calls {call.name}</strong>
      <pre tabIndex={0}>{pretty(call.arguments)}</pre>
      {!answered && !message.pending && (
        <form onSubmit={(e) => { e.preventDefault(); chats.sendResult(message, call, result); }}>
          <input aria-label={`Result of ${call.name}`} placeholder="Nothing was run. Type its result to go on" value={result} onInput={(e) => set(e.target.value)} />
          <button type="submit" disabled={!result.trim()}>Send result</button>
        </form>
      )}
    </div>
  );
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

// The server says nothing of a prompt until its first token: what is known is the time.
function Waiting({ began, progress }) {
  const [now, set] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => set(Date.now()), 200);
    return () => clearInterval(timer);
  }, []);
  return <p class="note waiting"><span class="dots" aria-hidden="true" />Reading the prompt{progress ? `: ${Math.round(100 * progress)} %` : ""}{now - began > 900 ? ` · ${seconds((now - began) / 1000)}` : ""}</p>;
}

function Branches({ conversation, message }) {
  const all = tree.siblings(conversation, message);
  if (all.length < 2) return null;
  const at = all.findIndex((m) => m.id === message.id);
  const busy = chats.isRunning();
  return (
    <span class="branches">
      <button type="button" class="quiet" aria-label="Earlier version" disabled={at === 0 || busy} onClick={() => chats.select(all[at - 1])}>‹</button>
      {at + 1}/{all.length}
      <button type="button" class="quiet" aria-label="Later version" disabled={at === all.length - 1 || busy} onClick={() => chats.select(all[at + 1])}>›</button>
    </span>
  );
}

function Figures({ message }) {
  if (message.role !== "assistant" || !message.firstMs || message.pending) return null;
  const words = [];
  if (message.usage) {
    const generating = (message.totalMs - message.firstMs) / 1000;
    words.push(plural(message.usage.tokens, "token"));
    if (message.usage.tokens > 1 && generating > 0) words.push(`${rate((message.usage.tokens - 1) / generating)} tokens/s`);
  }
  words.push(`first after ${seconds(message.firstMs / 1000)}`);
  if (message.usage) words.push(`prompt ${message.usage.prompt}${message.usage.cached ? `, ${message.usage.cached} cached` : ""}`);
  return <span class="figures">{words.join(" · ")}</span>;
}
