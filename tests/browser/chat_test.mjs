// The chat, as people use it.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { check, finish, makeModel, setTemplate, startServer, work } from "./harness.mjs";
import { answerWith, answered, answers, assertAccessible, browser, close, open, repository, say, shoot } from "./browser.mjs";

const kTemplate = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>";
const caterpillar = `${repository}/models/caterpillar.gguf`;
// Random weights write until the context is full: seconds of text to stop.
const slow = setTemplate(makeModel("slow-plain", "--dim", "512", "--hidden", "2048", "--layers", "8"), "slow", kTemplate);
const flags = ["-m", caterpillar, "-m", `slow=${slow}`];
let server = await startServer(...flags);

await check("the page is small, strict, and asks nobody else", async () => {
  const root = await fetch(server.url, { headers: { accept: "text/html" } });
  assert.match(root.headers.get("content-security-policy"), /default-src 'none'; script-src 'self'/);
  const html = await root.text();
  const files = [...html.matchAll(/(?:src|href)="\.?\/?(page\/[^"]+)"/g)].map((m) => m[1]);
  assert.ok(files.length >= 2, html);
  let bytes = html.length;
  for (const file of files) {
    const response = await fetch(`${server.url}/${file}`, { headers: { "accept-encoding": "identity" } });
    assert.equal(response.status, 200, file);
    assert.match(response.headers.get("cache-control"), /immutable/);
    const plain = Buffer.from(await response.arrayBuffer());
    assert.equal(response.headers.get("content-encoding"), null);
    bytes += gzipSync(plain, { level: 9 }).length;
  }
  console.log(`   first load: ${bytes} bytes gzipped in ${files.length + 1} files`);
  assert.ok(bytes <= 150_000, `${bytes} bytes`);
  assert.equal(await (await fetch(server.url)).text(), "Butterfly is running\n");
});

await check("an answer streams, with figures; a reload keeps it; another follows", async () => {
  const page = await open(server.url);
  await page.getByLabel("Model").selectOption("caterpillar");
  await say(page, "Tell me a story about a cat.");
  await answered(page);
  const text = await answers(page).locator(".markdown").innerText();
  assert.ok(text.length > 10, text);
  assert.match(await answers(page).locator(".figures").innerText(), /\d+ tokens · [\d.]+ tokens\/s · first after/);
  await shoot(page, "chat");
  await assertAccessible(page, "chat");
  await page.reload();
  await page.getByRole("button", { name: "Tell me a story about a cat." }).first().click();
  assert.equal(await answers(page).locator(".markdown").innerText(), text);
  await say(page, "And then?");
  await answered(page, 2);
  await close(page);
});

await check("stop keeps what was written; edit and regenerate make branches", async () => {
  const page = await open(server.url);
  await page.getByLabel("Model").selectOption("slow");
  await say(page, "first");
  await page.waitForFunction(() => document.querySelector("article.assistant .markdown")?.innerText.length > 20);
  await page.getByRole("button", { name: "Stop" }).click();
  await answered(page);
  const stopped = await answers(page).innerText();
  assert.match(stopped, /Stopped\./);
  assert.ok((await answers(page).locator(".markdown").innerText()).length > 20);
  // The server hears of it: nothing runs any more.
  for (let i = 0; ; ++i) {
    const metrics = await (await fetch(`${server.url}/metrics`)).text();
    if (!/num_requests_running\{[^}]*\} [1-9]/.test(metrics)) break;
    assert.ok(i < 100, "the request runs on");
    await new Promise((done) => setTimeout(done, 50));
  }
  await page.getByLabel("Model").selectOption("caterpillar");
  await page.getByRole("button", { name: "Edit" }).click();
  await page.getByLabel("Edit message").fill("second");
  await page.getByLabel("Edit message").press("Enter");
  await answered(page);
  assert.equal(await page.locator("article.user .text").innerText(), "second");
  assert.match(await page.locator("article.user .branches").innerText(), /2\/2/);
  await page.locator("article.user").getByLabel("Earlier version").click();
  assert.equal(await page.locator("article.user .text").innerText(), "first");
  assert.match(await answers(page).innerText(), /Stopped\./);
  await page.locator("article.user").getByLabel("Later version").click();
  await page.getByRole("button", { name: "Regenerate" }).click();
  await answered(page);
  assert.match(await answers(page).locator(".branches").innerText(), /2\/2/);
  await close(page);
});

await check("a reload in the middle of an answer keeps what had come", async () => {
  const page = await open(server.url);
  await page.getByLabel("Model").selectOption("slow");
  await say(page, "long");
  await page.waitForTimeout(1600);
  await page.reload();
  await page.getByRole("button", { name: "long", exact: true }).click();
  assert.match(await answers(page).innerText(), /The page was closed\./);
  assert.ok((await answers(page).locator(".markdown").innerText()).length > 0);
  await close(page);
});

await check("how far a long prompt is read", async () => {
  const small = await startServer("-m", `slow=${slow}`, "-b", "16");
  const page = await open(small.url);
  await say(page, "a long story ".repeat(130));
  await page.getByText(/Reading the prompt: \d+ %/).waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await answered(page);
  await close(page);
  await small.stop();
});

await check("hostile markdown is text", async () => {
  const page = await open(server.url);
  await page.addInitScript(() => { window.hit = 0; });
  await page.reload();
  const evil = [
    "<script>window.hit = 1</script>", "<img src=x onerror='window.hit=1'>", "<svg/onload=window.hit=1>", "[click](javascript:window.hit=1)",
    "![leak](http://127.0.0.1:9/x.png)", "<a href='javascript:window.hit=1'>x</a>", "[d](data:text/html,<script>window.hit=1</script>)",
    "<style>body{display:none}</style>", "<iframe src='/'></iframe>", "`<b>code</b>`", "```html\n<script>window.hit=1</script>\n```", "<form action='/x'><input name=a></form>", "<div id=app></div>"].join("\n\n");
  await answerWith(page, [{ content: evil.slice(0, 60) }, { content: evil.slice(60) }]);
  await say(page, "<img src=x onerror='window.hit=1'>");
  await answered(page);
  const shown = await answers(page).locator(".markdown").innerText();
  for (const part of ["<script>window.hit = 1</script>", "<img src=x onerror=", "<svg/onload=", "<iframe", "<style>", "<form"]) assert.ok(shown.includes(part), `${part} is missing: ${shown}`);
  const inside = await answers(page).locator(".markdown").evaluate((e) => ({
    tags: [...new Set([...e.querySelectorAll("*")].map((x) => x.tagName))],
    links: [...e.querySelectorAll("a")].map((a) => a.getAttribute("href")),
    handlers: [...e.querySelectorAll("*")].flatMap((x) => [...x.attributes]).filter((a) => /^on|style|srcdoc/.test(a.name)).length,
  }));
  for (const tag of ["SCRIPT", "IMG", "SVG", "IFRAME", "STYLE", "FORM", "INPUT"]) assert.ok(!inside.tags.includes(tag), tag);
  assert.deepEqual(inside.links.filter((href) => href && !/^https?:/.test(href)), []);
  assert.equal(inside.handlers, 0);
  assert.equal(await page.locator("article.user .text").innerText(), "<img src=x onerror='window.hit=1'>");
  assert.equal(await page.evaluate(() => window.hit), 0);
  await close(page);
});

await check("markdown, code with copy, reasoning, calls of tools", async () => {
  const page = await open(server.url, { permissions: ["clipboard-read", "clipboard-write"] });
  await answerWith(page, [{ reasoning_content: "let me think" }, { content: "# Title\n\n- **one**\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\nprint(" }, { content: "'hi')\n```\n" }]);
  await say(page, "show");
  await answered(page);
  assert.equal(await answers(page).locator("strong").innerText(), "one");
  assert.equal(await answers(page).locator("td").first().innerText(), "1");
  await answers(page).locator(".code-head button").click();
  assert.equal((await page.evaluate(() => navigator.clipboard.readText())).trim(), "print('hi')");
  await answers(page).getByText("Reasoning").click();
  assert.ok(await page.getByText("let me think").isVisible());
  await assertAccessible(page, "markdown");
  await page.unroute("**/v1/chat/completions");
  await answerWith(page, [{ tool_calls: [{ index: 0, id: "c1", function: { name: "weather", arguments: "" } }] }, { tool_calls: [{ index: 0, function: { arguments: '{"city":"Bonn"}' } }] }]);
  await say(page, "weather?");
  await answered(page, 2);
  assert.match(await answers(page).nth(1).locator(".call").innerText(), /Calls weather[\s\S]*"city": "Bonn"/);
  await page.unroute("**/v1/chat/completions");
  let sent;
  await page.route("**/v1/chat/completions", (route) => { sent = route.request().postDataJSON(); return route.fulfill({ contentType: "text/event-stream", body: 'data: {"choices":[{"delta":{"content":"sunny"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n' }); });
  await page.getByLabel("Result of weather").fill("12 degrees");
  await page.getByRole("button", { name: "Send result" }).click();
  await answered(page, 3);
  assert.deepEqual(sent.messages.at(-1), { role: "tool", tool_call_id: "c1", content: "12 degrees" });
  await close(page);
});

await check("sampling, system message, attachments and the picked model are what is sent", async () => {
  const page = await open(server.url);
  await page.getByLabel("Model").selectOption("slow");
  await page.getByRole("button", { name: "Sampling" }).click();
  await page.getByRole("textbox", { name: "System message" }).fill("Be a pirate.");
  await page.getByLabel("Temperature").fill("0.25");
  await page.getByLabel("Seed").fill("42");
  await assertAccessible(page, "sampling");
  await page.keyboard.press("Escape");
  writeFileSync(`${work}/note.txt`, "seven\n```\neight\n");
  writeFileSync(`${work}/picture.bin`, Buffer.from([0x89, 0x50, 0, 1, 2, 3]));
  await page.locator('.composer input[type="file"]').setInputFiles([`${work}/note.txt`, `${work}/picture.bin`]);
  await page.getByText("picture.bin is not text").waitFor();
  let sent;
  await page.route("**/v1/chat/completions", (route) => { sent = route.request().postDataJSON(); return route.fulfill({ contentType: "text/event-stream", body: 'data: {"choices":[{"delta":{"content":"aye"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n' }); });
  await say(page, "what is in it?");
  await answered(page);
  assert.equal(sent.model, "slow");
  assert.equal(sent.temperature, 0.25);
  assert.equal(sent.seed, 42);
  assert.equal(sent.top_p, undefined);
  assert.deepEqual(sent.messages[0], { role: "system", content: "Be a pirate." });
  assert.match(sent.messages[1].content, /^File note\.txt:\n````\nseven\n```\neight\n\n````\n\nwhat is in it\?$/);
  await close(page);
});

await check("search, export and import", async () => {
  const page = await open(server.url);
  await answerWith(page, [{ content: "The answer is **forty-two**." }]);
  await say(page, "apples");
  await answered(page);
  await page.getByRole("button", { name: "New conversation" }).click();
  await say(page, "bananas");
  await answered(page);
  await page.getByLabel("Search conversations").fill("forty apples");
  assert.deepEqual(await page.locator(".sidebar li .title").allInnerTexts(), ["apples"]);
  await page.getByLabel("Search conversations").fill("");
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Export all" }).click()]);
  await file.saveAs(`${work}/exported.json`);
  const other = await open(server.url);
  await other.locator('.sidebar input[type="file"]').setInputFiles(`${work}/exported.json`);
  await other.getByText("2 imported.").waitFor();
  await other.getByRole("button", { name: "apples", exact: true }).click();
  assert.match(await answers(other).innerText(), /forty-two/);
  writeFileSync(`${work}/wrong.json`, "{}");
  await other.locator('.sidebar input[type="file"]').setInputFiles(`${work}/wrong.json`);
  await other.getByText("holds no conversations").waitFor();
  await close(other);
  await close(page);
});

await check("dark, by the system and by choice", async () => {
  const page = await open(server.url, { colorScheme: "dark" });
  const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(await back(), "rgb(22, 22, 28)");
  await answerWith(page, [{ content: "Night. `code` [link](https://example.org)\n\n```\nx\n```" }]);
  await say(page, "hello");
  await answered(page);
  await assertAccessible(page, "dark");
  await shoot(page, "chat-dark");
  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByLabel("Appearance").selectOption("light");
  assert.equal(await back(), "rgb(255, 255, 255)");
  await page.reload();
  assert.equal(await back(), "rgb(255, 255, 255)");
  await close(page);
});

await check("a phone: nothing is cut off, conversations open over the chat", async () => {
  const page = await open(server.url, { viewport: { width: 360, height: 720 }, hasTouch: true, isMobile: true });
  await answerWith(page, [{ content: "A long line of code:\n\n```\n" + "x".repeat(300) + "\n```\nand " + "y".repeat(300) }]);
  await say(page, "hello");
  await answered(page);
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360);
  await page.getByRole("button", { name: "Conversations", exact: true }).click();
  await page.getByRole("button", { name: "New conversation" }).waitFor();
  await page.getByRole("button", { name: "hello", exact: true }).click();
  await page.locator("article.user").waitFor();
  await assertAccessible(page, "phone");
  await shoot(page, "chat-phone");
  await close(page);
});

await check("a full queue is said in words, and can be tried again", async () => {
  const busy = await startServer("-m", slow, "--parallel", "1", "--queue", "1");
  const hold = new AbortController();
  const body = JSON.stringify({ prompt: "x", max_tokens: 1900, ignore_eos: true, stream: true });
  const held = [1, 2].map(() => fetch(`${busy.url}/v1/completions`, { method: "POST", headers: { "content-type": "application/json" }, body, signal: hold.signal }).then((r) => r.text()).catch(() => ""));
  for (let i = 0; ; ++i) {
    const metrics = await (await fetch(`${busy.url}/metrics`)).text();
    if (/num_requests_running\{[^}]*\} 1/.test(metrics) && /num_requests_waiting\{[^}]*\} 1/.test(metrics)) break;
    assert.ok(i < 500, "one runs and one waits");
    await new Promise((done) => setTimeout(done, 20));
  }
  const page = await open(busy.url, { expected: [/429/] });
  await say(page, "me too");
  await answered(page);
  assert.match(await answers(page).innerText(), /The server is busy[\s\S]*Try again in \d+ s/);
  hold.abort();
  await Promise.all(held);
  await page.getByRole("button", { name: "Try again" }).click();
  await page.waitForFunction(() => document.querySelector("article.assistant .markdown")?.innerText.length > 0);
  await page.getByRole("button", { name: "Stop" }).click();
  await close(page);
  await busy.stop();
});

await check("a key is asked for, remembered, and a wrong one is said", async () => {
  const locked = await startServer("-m", caterpillar, "--api-key", "bf-0123456789abcdef");
  const page = await open(locked.url, { expected: [/401/] });
  await page.getByLabel("API key").fill("bf-wrong-wrong-wrong");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByLabel("API key").fill("bf-0123456789abcdef"); // the dialog is back
  await page.getByRole("button", { name: "Save" }).click();
  await page.waitForFunction(() => document.querySelector("select.picker").value === "caterpillar");
  await say(page, "Hello");
  await answered(page);
  assert.ok((await answers(page).locator(".markdown").innerText()).length > 0);
  await page.reload();
  await page.waitForFunction(() => document.querySelector("select.picker").value === "caterpillar");
  await close(page);
  await locked.stop();
});

await check("a conversation that is too long is said in words", async () => {
  const page = await open(server.url, { expected: [/400/] });
  await page.getByLabel("Model").selectOption("slow");
  await say(page, "word ".repeat(3000));
  await answered(page);
  assert.match(await answers(page).innerText(), /too long for this model/);
  await close(page);
});

await check("a server that dies in the middle, and comes back", async () => {
  const gate = createServer().listen(0, "127.0.0.1"); // a free port that stays the same over the restart
  const port = await new Promise((done) => gate.on("listening", () => done(gate.address().port)));
  await new Promise((done) => gate.close(done));
  let mortal = await startServer(...flags, "--port", String(port));
  const page = await open(mortal.url, { expected: [/ERR_/, /Failed to fetch/, /network/i] });
  await page.getByLabel("Model").selectOption("slow");
  await say(page, "will you die?");
  await page.waitForFunction(() => document.querySelector("article.assistant .markdown")?.innerText.length > 20);
  mortal.child.kill("SIGKILL");
  await page.locator("article.assistant .problem").waitFor();
  assert.match(await answers(page).innerText(), /The server does not answer/);
  assert.ok((await answers(page).locator(".markdown").innerText()).length > 20, "what had come stays");
  assert.match(await page.locator(".banner").innerText(), /Looking for it/);
  mortal = await startServer(...flags, "--port", String(port));
  await page.waitForFunction(() => document.querySelector(".banner").innerText === "");
  await page.getByLabel("Model").selectOption("caterpillar");
  await page.getByRole("button", { name: "Try again" }).click();
  await page.waitForFunction(() => document.querySelector("article.assistant .figures"));
  await close(page);
  await mortal.stop();
});

await browser.close();
await server.stop();
finish();
