// State that lives outside of components: they subscribe with useStore() and are drawn again when it says so.
import { useEffect, useState } from "preact/hooks";

export class Store {
  #listeners = new Set();
  subscribe(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
  changed() {
    for (const listener of this.#listeners) listener();
  }
}

export function useStore(store) {
  const [, again] = useState(0);
  useEffect(() => store.subscribe(() => again((n) => n + 1)), [store]);
  return store;
}
