// Markdown of models and people as elements. HTML in it is shown as the text it is; pictures, which would tell another
// server that this page was read, become links; what is left passes DOMPurify.
import DOMPurify from "dompurify";
import { Marked } from "marked";

const kTags = ["a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "input", "li", "ol", "p", "pre", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"];
const kLinks = /^(https?:|mailto:)/i;

const escaped = (text) => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ text }) => escaped(text),
    image: ({ href, text }) => `<a href="${escaped(href)}">${escaped(text || href)}</a>`,
  },
});

function withCopy(pre) {
  const code = pre.querySelector("code");
  const language = code?.className.match(/language-([\w+#.-]{1,20})/)?.[1] ?? "";
  const box = document.createElement("div");
  const head = document.createElement("div");
  const button = document.createElement("button");
  box.className = "code";
  head.className = "code-head";
  head.append(language || "text", button);
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    button.textContent = (await copyText(code.textContent)) ? "Copied" : "Cannot copy";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  pre.tabIndex = 0; // it scrolls, so keys must reach it
  pre.replaceWith(box);
  box.append(head, pre);
}

function rendered(token, lexed) {
  const list = Object.assign([token], { links: lexed.links });
  const fragment = DOMPurify.sanitize(marked.parser(list), { ALLOWED_TAGS: kTags, ALLOWED_ATTR: ["align", "checked", "class", "disabled", "href", "start", "type"], ALLOW_DATA_ATTR: false, ALLOWED_URI_REGEXP: kLinks, RETURN_DOM_FRAGMENT: true });
  for (const link of fragment.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
  }
  for (const box of fragment.querySelectorAll("input")) {
    if (box.type !== "checkbox") box.remove();
    else box.setAttribute("aria-label", "done");
  }
  for (const pre of fragment.querySelectorAll("pre")) withCopy(pre);
  for (const table of fragment.querySelectorAll("table")) {
    const box = document.createElement("div");
    box.className = "table";
    box.tabIndex = 0;
    table.replaceWith(box);
    box.append(table);
  }
  const block = document.createElement("div");
  block.append(fragment);
  return block;
}

// Fills `element`. Blocks that are as before stay: a long answer that grows is not made anew with each token, and what
// was selected in it stays selected.
export function renderMarkdown(element, text) {
  const lexed = marked.lexer(text);
  const blocks = lexed.filter((token) => token.type !== "space");
  const had = element.blocks ?? [];
  let same = 0;
  while (same < had.length && same < blocks.length && had[same] === blocks[same].raw) ++same;
  while (element.childNodes.length > same) element.lastChild.remove();
  for (const token of blocks.slice(same)) element.append(rendered(token, lexed));
  element.blocks = blocks.map((token) => token.raw);
}

// True when it worked. Pages over plain HTTP from another machine have no clipboard, but may still copy a selection.
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "off-screen";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
