// Another machine: the line that makes it a node, made here with the operator's key, or on the first machine without.
import { useState } from "preact/hooks";
import * as api from "../lib/api.js";
import { setSetting, setting } from "../lib/store.js";
import { CopyButton, Dialog } from "../lib/widgets.jsx";

// The operator's key is asked for when it is needed, and forgotten with the tab.
export function KeyField({ onKey, action }) {
  const [key, set] = useState(setting("operator"));
  return (
    <form class="key" onSubmit={(e) => { e.preventDefault(); setSetting("operator", key, false); onKey(key); }}>
      <label>Operator key<input type="password" autocomplete="off" value={key} onInput={(e) => set(e.target.value)} placeholder="bf-…" /></label>
      <button type="submit" disabled={!key.trim()}>{action}</button>
    </form>
  );
}

export function Join({ onClose }) {
  const [line, set] = useState("");
  const [note, say] = useState("");
  const make = async (key) => {
    try {
      set(await api.joinLine(key));
      say("");
    } catch (problem) {
      say(problem.message);
    }
  };
  return (
    <Dialog title="Add a machine" onClose={onClose}>
      <p>Copy the program there (one file), and run the join line. It is good for one machine, for an hour.</p>
      {line
        ? <div class="code"><div class="code-head">on the new machine<CopyButton text={line} /></div><pre tabIndex={0} class="join-line">{line}</pre></div>
        : <KeyField onKey={make} action="Make a join line" />}
      {note && <p class="problem" role="alert">{note}</p>}
      {!line && <><p>Or, without a key, on the machine of this server:</p>
        <div class="code"><div class="code-head">shell<CopyButton text="butterfly token new" /></div><pre tabIndex={0}>butterfly token new</pre></div></>}
    </Dialog>
  );
}
