// A conversation is a tree of messages: editing one, or asking again, makes a sibling and throws nothing away. What is
// shown is the path from the root to `leaf`. All functions are pure; a conversation is a plain object that JSON can hold.

export const kForm = "butterfly-conversations-1"; // of exported files

let last = 0;
// Unique in this browser, and ordered by time.
export function newId() {
  last = Math.max(last + 1, Date.now());
  return last.toString(36) + Math.random().toString(36).slice(2, 8);
}

export function newConversation(settings = {}) {
  return { id: newId(), title: "", created: Date.now(), changed: Date.now(), leaf: null, messages: {}, settings };
}

// Root first.
export function path(conversation, leaf = conversation.leaf) {
  const out = [];
  for (let id = leaf; id && conversation.messages[id]; id = conversation.messages[id].parent) out.unshift(conversation.messages[id]);
  return out;
}

// With the same parent, oldest first.
export function siblings(conversation, message) {
  return Object.values(conversation.messages)
    .filter((other) => other.parent === message.parent)
    .sort((a, b) => (a.id < b.id ? -1 : 1));
}

export function add(conversation, parent, message) {
  const id = newId();
  return {
    ...conversation,
    changed: Date.now(),
    leaf: id,
    title: conversation.title || (message.role === "user" ? titleOf(message) : ""),
    messages: { ...conversation.messages, [id]: { content: "", ...message, id, parent } },
  };
}

export function change(conversation, id, fields) {
  if (!conversation.messages[id]) return conversation;
  return { ...conversation, changed: Date.now(), messages: { ...conversation.messages, [id]: { ...conversation.messages[id], ...fields } } };
}

// Shows the branch that goes through `id`, to the end of its newest continuation.
export function select(conversation, id) {
  const children = (parent) => Object.values(conversation.messages).filter((m) => m.parent === parent).sort((a, b) => (a.id < b.id ? -1 : 1));
  let leaf = id;
  for (let next = children(leaf); next.length > 0; next = children(leaf)) leaf = next[next.length - 1].id;
  return { ...conversation, leaf };
}

export function titleOf(message) {
  const line = (message.content || message.files?.[0]?.name || "").trim().split("\n")[0];
  return line.length > 48 ? line.slice(0, 47) + "…" : line;
}

// A file that was attached goes before the words, fenced by more backticks than it has.
export function fullText(message) {
  const files = (message.files ?? []).map(({ name, text }) => {
    const fence = "`".repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map((m) => m[0].length + 1)));
    return `File ${name}:\n${fence}\n${text}\n${fence}\n`;
  });
  return [...files, message.content].join("\n");
}

// What the server gets: the path up to and with `leaf`.
export function requestMessages(conversation, leaf) {
  const system = conversation.settings.system?.trim();
  const out = system ? [{ role: "system", content: system }] : [];
  for (const message of path(conversation, leaf)) {
    if (message.role === "user") out.push({ role: "user", content: fullText(message) });
    else if (message.role === "tool") out.push({ role: "tool", tool_call_id: message.call, content: message.content });
    else if (message.content || message.calls?.length) {
      const row = { role: "assistant", content: message.content };
      if (message.calls?.length) row.tool_calls = message.calls.map((call) => ({ id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } }));
      out.push(row);
    }
  }
  return out;
}

export function matches(conversation, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (wanted.length === 0) return true;
  const text = [conversation.title, ...Object.values(conversation.messages).map((m) => m.content)].join("\n").toLowerCase();
  return wanted.every((word) => text.includes(word));
}

export function exported(conversations) {
  return JSON.stringify({ form: kForm, conversations }, null, 1);
}

// Throws with words for what is no such file. Only known fields are taken: the file may come from anywhere.
export function imported(text) {
  let json;
  try {
    json = JSON.parse(text);
  } catch {
    throw new Error("This file is not JSON; expected one that was exported here.");
  }
  if (json?.form !== kForm || !Array.isArray(json.conversations)) throw new Error("This file holds no conversations of Butterfly's page.");
  return json.conversations.map((c) => {
    const messages = {};
    for (const m of Object.values(c.messages ?? {})) {
      if (!["user", "assistant", "tool"].includes(m?.role)) continue;
      messages[String(m.id)] = {
        id: String(m.id), parent: m.parent == null ? null : String(m.parent), role: m.role, content: String(m.content ?? ""),
        ...(m.reasoning ? { reasoning: String(m.reasoning) } : {}),
        ...(m.call ? { call: String(m.call) } : {}),
        ...(Array.isArray(m.calls) ? { calls: m.calls.map((x) => ({ id: String(x.id), name: String(x.name), arguments: String(x.arguments) })) } : {}),
        ...(Array.isArray(m.files) ? { files: m.files.map((f) => ({ name: String(f.name), text: String(f.text) })) } : {}),
      };
    }
    for (const m of Object.values(messages)) if (m.parent !== null && !messages[m.parent]) m.parent = null;
    const leaf = messages[String(c.leaf)] ? String(c.leaf) : Object.keys(messages).sort().pop() ?? null;
    const conversation = { ...newConversation(), title: String(c.title ?? ""), leaf, messages };
    if (hasLoop(conversation)) throw new Error("This file is damaged: a message follows itself.");
    if (typeof c.settings?.system === "string") conversation.settings = { system: c.settings.system };
    return conversation;
  });
}

function hasLoop(conversation) {
  return Object.values(conversation.messages).some((start) => {
    const seen = new Set();
    for (let m = start; m; m = conversation.messages[m.parent]) {
      if (seen.has(m.id)) return true;
      seen.add(m.id);
    }
    return false;
  });
}
