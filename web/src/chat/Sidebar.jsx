// The conversations: search, open, rename, delete, export, import.
import { useRef, useState } from "preact/hooks";
import * as tree from "../lib/conversation.js";
import { download } from "../lib/widgets.jsx";
import { chats } from "./chats.js";

export function Sidebar({ onOpen }) {
  const [words, search] = useState("");
  const [note, say] = useState("");
  const picker = useRef(null);
  const shown = chats.all.filter((c) => tree.matches(c, words));
  const open = (id) => {
    chats.open(id);
    onOpen();
  };
  const take = async (e) => {
    try {
      const count = chats.importText(await e.target.files[0].text());
      say(`${count} imported.`);
    } catch (error) {
      say(error.message);
    }
    e.target.value = "";
  };
  return (
    <nav class="sidebar" aria-label="Conversations">
      <button type="button" class="main" onClick={() => open(null)}>New conversation</button>
      <input type="search" aria-label="Search conversations" placeholder="Search" value={words} onInput={(e) => search(e.target.value)} />
      <ul>
        {shown.map((c) => <Row key={c.id} conversation={c} onOpen={() => open(c.id)} />)}
        {shown.length === 0 && <li class="note">{words ? "None has these words." : "None yet."}</li>}
      </ul>
      <footer>
        <button type="button" class="quiet" disabled={chats.all.length === 0} onClick={() => download("conversations.json", chats.exportAll())}>Export all</button>
        <button type="button" class="quiet" onClick={() => picker.current.click()}>Import</button>
        <input ref={picker} type="file" accept=".json,application/json" hidden aria-label="Import conversations" onChange={take} />
        <span role="status" class="note">{note}</span>
      </footer>
    </nav>
  );
}

function Row({ conversation, onOpen }) {
  const [renaming, rename] = useState(false);
  const current = chats.current === conversation.id;
  if (renaming) {
    const done = (e) => {
      chats.rename(conversation.id, e.target.value);
      rename(false);
    };
    return <li><input aria-label="Title" defaultValue={conversation.title} ref={(e) => e?.focus()} onBlur={done} onKeyDown={(e) => { if (e.key === "Enter") done(e); if (e.key === "Escape") rename(false); }} /></li>;
  }
  return (
    <li class={current ? "current" : ""}>
      <button type="button" class="title" aria-current={current || undefined} onClick={onOpen}>{chats.isRunning(conversation.id) && <span class="dots" aria-label="answering" role="img" />}{conversation.title || "Untitled"}</button>
      <button type="button" class="quiet" aria-label={`Rename ${conversation.title}`} title="Rename" onClick={() => rename(true)}>✎</button>
      <button type="button" class="quiet" aria-label={`Delete ${conversation.title}`} title="Delete" onClick={() => confirm(`Delete "${conversation.title}"?`) && chats.remove(conversation.id)}>×</button>
    </li>
  );
}
