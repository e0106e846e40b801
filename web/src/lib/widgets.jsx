// Small parts that several views use.
import { useEffect, useRef, useState } from "preact/hooks";
import { copyText, renderMarkdown } from "./markdown.js";

export function Markdown({ text }) {
  const element = useRef(null);
  useEffect(() => renderMarkdown(element.current, text), [text]);
  return <div class="markdown" ref={element} />;
}

export function CopyButton({ text, label = "Copy" }) {
  const [said, say] = useState("");
  const copy = async () => {
    say((await copyText(text)) ? "Copied" : "Cannot copy");
    setTimeout(() => say(""), 1500);
  };
  return <button type="button" class="quiet" onClick={copy}>{said || label}</button>;
}

// A dialog over the page, with the browser's own focus trap and Escape.
export function Dialog({ title, onClose, children }) {
  const element = useRef(null);
  useEffect(() => element.current.showModal(), []);
  return (
    <dialog ref={element} aria-label={title} onClose={onClose} onClick={(e) => e.target === element.current && element.current.close()}>
      <div class="dialog">
        <header><h2>{title}</h2><button type="button" class="quiet" onClick={() => element.current.close()}>Close</button></header>
        {children}
      </div>
    </dialog>
  );
}

export function useWidth(element, fallback = 800) {
  const [width, set] = useState(fallback);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => set(Math.round(entry.contentRect.width)));
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return width;
}

export function download(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
