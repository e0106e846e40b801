// Model, system message and sampling of a conversation. Empty fields leave the choice to the server.
import { useState } from "preact/hooks";
import { chats } from "./chats.js";

const kFields = [
  ["temperature", "Temperature", "0.8", 0, 2, 0.05, "0: the likeliest token always"],
  ["top_p", "Top p", "0.95", 0, 1, 0.01, "only the likeliest tokens with this share"],
  ["top_k", "Top k", "40", 0, 1000, 1, "only so many likeliest; 0: all"],
  ["min_p", "Min p", "0.05", 0, 1, 0.01, "with this share of the likeliest's probability"],
  ["repeat_penalty", "Repeat penalty", "1", 0.01, 10, 0.05, "above 1: less repetition"],
  ["max_tokens", "Longest answer", "no bound", 1, 1000000, 1, "tokens"],
  ["seed", "Seed", "fresh", 0, 9007199254740991, 1, "the same seed gives the same text"],
];

export function ModelPicker() {
  const roots = chats.models.filter((m) => !m.parent);
  const name = (m) => (m.status && m.status !== "ready" ? `${m.id} (${m.status})` : m.id);
  return (
    <select class="picker" aria-label="Model" value={chats.model()} onChange={(e) => chats.set({ model: e.target.value })} disabled={chats.models.length === 0}>
      {chats.models.length === 0 && <option value="">no model</option>}
      {roots.map((m) => {
        const adapters = chats.models.filter((a) => a.parent === m.id);
        return [<option key={m.id} value={m.id}>{name(m)}</option>, ...adapters.map((a) => <option key={a.id} value={a.id}>{"\u2003↳ " + name(a)}</option>)];
      })}
    </select>
  );
}

export function Panel() {
  const settings = chats.settings();
  return (
    <form class="panel" onSubmit={(e) => e.preventDefault()}>
      <label>System message<textarea rows={4} value={settings.system ?? ""} onInput={(e) => chats.set({ system: e.target.value })} placeholder="How the model should be" /></label>
      <div class="grid">
        {kFields.map(([key, label, fallback, min, max, step, help]) => (
          <label key={key}>{label}<input type="number" min={min} max={max} step={step} placeholder={fallback} value={settings[key] ?? ""} onInput={(e) => chats.set({ [key]: e.target.value })} /><small>{help}</small></label>
        ))}
        <label>Reasoning<select value={settings.effort ?? ""} onChange={(e) => chats.set({ effort: e.target.value })}>
          <option value="">as the model does</option><option value="none">none</option><option value="low">low</option><option value="medium">medium</option><option value="high">high</option>
        </select><small>for models that reason</small></label>
      </div>
      <Tools value={settings.tools ?? ""} />
    </form>
  );
}

function Tools({ value }) {
  const [text, set] = useState(value);
  const [note, say] = useState("");
  const take = (e) => {
    set(e.target.value);
    try {
      if (e.target.value.trim() && !Array.isArray(JSON.parse(e.target.value))) throw new Error("expected a list");
      say("");
      chats.set({ tools: e.target.value });
    } catch (error) {
      say(`Not used: ${error.message}`);
    }
  };
  return (
    <details><summary>Tools</summary>
      <label>Functions that the model may call, as JSON. Calls are shown; nothing is run.<textarea rows={5} spellcheck={false} value={text} onInput={take} placeholder='[{"type": "function", "function": {"name": "…", "parameters": {…}}}]' /></label>
      {note && <p class="problem" role="alert">{note}</p>}
    </details>
  );
}
