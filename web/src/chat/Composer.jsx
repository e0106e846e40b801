// Where messages are written: Enter sends, Shift+Enter begins a line, files are attached by button, drop or paste.
import { useEffect, useRef, useState } from "preact/hooks";
import { chats } from "./chats.js";

const kFileBytesMax = 1 << 20;

async function readFiles(list) {
  const files = [], refused = [];
  for (const file of list) {
    if (file.size > kFileBytesMax) {
      refused.push(`${file.name} is larger than 1 MB`);
      continue;
    }
    const text = await file.text();
    if (/\0|\uFFFD/.test(text)) refused.push(`${file.name} is not text`);
    else files.push({ name: file.name, text });
  }
  return { files, refused };
}

export function Composer() {
  const [text, set] = useState("");
  const [files, setFiles] = useState([]);
  const [note, say] = useState("");
  const area = useRef(null);
  const picker = useRef(null);
  const busy = chats.isRunning();
  useEffect(() => area.current.focus(), [chats.current]);
  useEffect(() => {
    area.current.style.height = "auto";
    area.current.style.height = `${Math.min(area.current.scrollHeight + 2, 260)}px`;
  }, [text]);

  const attach = async (list) => {
    const read = await readFiles(list);
    setFiles((had) => [...had, ...read.files]);
    say(read.refused.join("; "));
  };
  const send = () => {
    if (busy || (!text.trim() && files.length === 0)) return;
    chats.send(text.trim(), files);
    set("");
    setFiles([]);
    say("");
  };
  const keys = (e) => {
    if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
      e.preventDefault();
      send();
    }
    if (e.key === "Escape" && busy) chats.stop();
  };
  const drop = (e) => {
    if (!e.dataTransfer?.files.length) return;
    e.preventDefault();
    attach([...e.dataTransfer.files]);
  };
  return (
    <div class="composer" onDrop={drop} onDragOver={(e) => e.preventDefault()}>
      {files.length > 0 && (
        <div class="chips">
          {files.map((file, i) => <span class="chip" key={i}>{file.name}<button type="button" class="quiet" aria-label={`Remove ${file.name}`} onClick={() => setFiles(files.filter((_, k) => k !== i))}>×</button></span>)}
        </div>
      )}
      {note && <p class="problem" role="alert">{note}</p>}
      <div class="row">
        <button type="button" class="quiet" aria-label="Attach text files" title="Attach text files" onClick={() => picker.current.click()}>+</button>
        <input ref={picker} type="file" multiple hidden onChange={(e) => { attach([...e.target.files]); e.target.value = ""; }} />
        <textarea ref={area} rows={1} aria-label="Message" placeholder="Message" value={text} onInput={(e) => set(e.target.value)} onKeyDown={keys}
          onPaste={(e) => { if (e.clipboardData.files.length) { e.preventDefault(); attach([...e.clipboardData.files]); } }} />
        {busy
          ? <button type="button" class="main" onClick={() => chats.stop()}>Stop</button>
          : <button type="button" class="main" onClick={send} disabled={!text.trim() && files.length === 0}>Send</button>}
      </div>
    </div>
  );
}
