// The page: a head with the views, what the server's state is, and the view that the address names.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Chat } from "./chat/Chat.jsx";
import { chats } from "./chat/chats.js";
import { Cluster } from "./cluster/Cluster.jsx";
import { connection } from "./lib/connection.js";
import { setSetting, setting } from "./lib/store.js";
import { useStore } from "./lib/store_base.js";
import { Dialog } from "./lib/widgets.jsx";
import { Training } from "./training/Training.jsx";

const kViews = [["chat", "Chat", Chat], ["cluster", "Cluster", Cluster], ["training", "Training", Training]];

function applyTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

function App() {
  useStore(connection);
  const [view, setView] = useState(viewOf(location.hash));
  const [settings, showSettings] = useState(false);
  useEffect(() => {
    const moved = () => setView(viewOf(location.hash));
    addEventListener("hashchange", moved);
    connection.needsKey = () => showSettings(true);
    return () => removeEventListener("hashchange", moved);
  }, []);
  const Shown = kViews.find(([name]) => name === view)[2];
  return (
    <>
      <header class="head">
        <a class="brand" href="#chat"><img src={icon} alt="" width="22" height="22" />Butterfly</a>
        <nav aria-label="Views">{kViews.map(([name, title]) => <a key={name} href={`#${name}`} aria-current={view === name ? "page" : undefined}>{title}</a>)}</nav>
        <span class="grow" />
        <button type="button" class="quiet" onClick={() => showSettings(true)}>Settings</button>
      </header>
      <p class={`banner ${connection.state}`} role="status">{connection.state === "gone" || connection.state === "waiting" ? connection.words : ""}</p>
      <Shown />
      {settings && <SettingsDialog onClose={() => showSettings(false)} />}
    </>
  );
}

function SettingsDialog({ onClose }) {
  const [key, setKey] = useState(setting("key"));
  const [remember, setRemember] = useState(true);
  const [theme, setTheme] = useState(setting("theme"));
  const save = (e) => {
    e.preventDefault();
    setSetting("key", key.trim(), remember);
    chats.loadModels();
    onClose();
  };
  return (
    <Dialog title="Settings" onClose={onClose}>
      <form class="panel" onSubmit={save}>
        <label>Appearance<select value={theme} onChange={(e) => { setTheme(e.target.value); setSetting("theme", e.target.value); applyTheme(e.target.value); }}>
          <option value="">as the system</option><option value="light">light</option><option value="dark">dark</option>
        </select></label>
        <label>API key<input type="password" autocomplete="off" value={key} onInput={(e) => setKey(e.target.value)} placeholder="only where the server asks for one" /></label>
        <label class="check"><input type="checkbox" checked={remember} onChange={(e) => setRemember(e.target.checked)} />Remember the key in this browser</label>
        <button type="submit" class="main">Save</button>
      </form>
    </Dialog>
  );
}

function viewOf(hash) {
  const name = hash.replace(/^#/, "");
  return kViews.some(([known]) => known === name) ? name : "chat";
}

const icon = document.querySelector("link[rel=icon]").href;
applyTheme(setting("theme"));
chats.start();
connection.look();
const root = document.getElementById("app");
root.replaceChildren();
render(<App />, root);
