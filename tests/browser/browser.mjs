// Chromium, with what every check wants of it: no error in the console, no request to another host, no serious finding of axe.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";
import { work } from "./harness.mjs";

export const repository = process.argv[4];
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });

// A page of its own, with storage of its own. `expected`: console errors that belong to the check.
export async function open(url, { expected = [], ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, ...options });
  context.setDefaultTimeout(20_000);
  const page = await context.newPage();
  page.problems = [];
  const note = (text) => {
    if (!expected.some((pattern) => pattern.test(text))) page.problems.push(text);
  };
  page.on("console", (message) => message.type() === "error" && note(message.text()));
  page.on("pageerror", (error) => note(String(error)));
  page.on("request", (request) => {
    if (!request.url().startsWith(new URL(url).origin + "/") && !/^(blob|data):/.test(request.url())) note(`asked another host: ${request.url()}`);
  });
  await page.goto(url);
  return page;
}

export async function close(page) {
  assert.deepEqual(page.problems, []);
  await page.context().close();
}

export async function assertAccessible(page, what) {
  const found = await page.evaluate(`${axe}; axe.run(document, { resultTypes: ["violations"] })`);
  const serious = found.violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) => `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 120)).join(" | ")}`);
  assert.deepEqual(serious, [], what);
}

// For people to look at; those that the docs show also go where they are kept.
const kOfDocs = ["chat", "cluster", "training"];
export async function shoot(page, name) {
  await page.screenshot({ path: `${work}/${name}.png` });
  if (process.env.BUTTERFLY_SCREENSHOTS && kOfDocs.includes(name)) await page.screenshot({ path: `${process.env.BUTTERFLY_SCREENSHOTS}/${name}.png` });
}

// An answer of the server's, made up: what models write cannot be foreseen.
export async function answerWith(page, deltas, status = 200, headers = {}) {
  await page.route("**/v1/chat/completions", (route) => {
    const pieces = deltas.map((delta) => ({ choices: [{ index: 0, delta, finish_reason: null }] }));
    pieces.push({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }, { choices: [], usage: { prompt_tokens: 3, completion_tokens: deltas.length } });
    const body = status === 200 ? pieces.map((p) => `data: ${JSON.stringify(p)}\n\n`).join("") + "data: [DONE]\n\n" : JSON.stringify(deltas);
    return route.fulfill({ status, headers, contentType: status === 200 ? "text/event-stream" : "application/json", body });
  });
}

export async function say(page, text) {
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.getByLabel("Message", { exact: true }).press("Enter");
}
export const answers = (page) => page.locator("article.assistant");
export async function answered(page, count = 1) {
  await page.waitForFunction((n) => {
    const all = document.querySelectorAll("article.assistant");
    return all.length >= n && !document.querySelector("article.assistant[aria-busy]");
  }, count);
}
