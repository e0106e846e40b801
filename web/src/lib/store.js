// Conversations in this browser (IndexedDB), and the page's own settings (localStorage). Where a browser allows neither
// (private windows of some), they last as long as the page.

let database = null;
let memory = null;

function opened() {
  if (memory) return Promise.resolve(null);
  database ??= new Promise((resolve) => {
    try {
      const request = indexedDB.open("butterfly", 1);
      request.onupgradeneeded = () => request.result.createObjectStore("conversations", { keyPath: "id" });
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => resolve(null);
    } catch {
      resolve(null);
    }
  }).then((db) => {
    if (!db) memory = new Map();
    return db;
  });
  return database;
}

function run(db, mode, action) {
  return new Promise((resolve, reject) => {
    const transaction = db.transaction("conversations", mode);
    const request = action(transaction.objectStore("conversations"));
    transaction.oncomplete = () => resolve(request.result);
    transaction.onerror = transaction.onabort = () => reject(transaction.error);
  });
}

export async function loadAll() {
  const db = await opened();
  const all = db ? await run(db, "readonly", (store) => store.getAll()) : [...memory.values()];
  return all.sort((a, b) => b.changed - a.changed);
}

export async function save(conversation) {
  const db = await opened();
  if (db) await run(db, "readwrite", (store) => store.put(conversation));
  else memory.set(conversation.id, conversation);
}

export async function remove(id) {
  const db = await opened();
  if (db) await run(db, "readwrite", (store) => store.delete(id));
  else memory.delete(id);
}

export const lasts = async () => (await opened()) !== null;

export function setting(name, fallback = "") {
  try {
    return sessionStorage.getItem(name) ?? localStorage.getItem(name) ?? fallback;
  } catch {
    return fallback;
  }
}

// `keep` false: only until the tab is closed.
export function setSetting(name, value, keep = true) {
  try {
    sessionStorage.removeItem(name);
    localStorage.removeItem(name);
    if (value) (keep ? localStorage : sessionStorage).setItem(name, value);
  } catch {
    // The page works without.
  }
}
