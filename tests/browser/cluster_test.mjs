// The cluster's view while a node is killed and comes back.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { butterfly, check, finish, startServer, work } from "./harness.mjs";
import { assertAccessible, browser, close, open, repository, shoot } from "./browser.mjs";

const caterpillar = `${repository}/models/caterpillar.gguf`;
// "bf-…", shown once; the file keeps its hash.
const key = execFileSync(butterfly, ["serve", "--make-key", `${work}/operators-${process.pid}`], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).match(/bf-[0-9a-f]{64}/)[0];
const server = await startServer("-m", caterpillar, "--local-nodes", "3", "--operator-key-file", `${work}/operators-${process.pid}`);

// Something to do for the charts.
let working = true;
const work_loop = (async () => {
  while (working) {
    await fetch(`${server.url}/v1/completions`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ prompt: "Once upon a time", max_tokens: 64, ignore_eos: true }) }).then((r) => r.text()).catch(() => "");
    await new Promise((done) => setTimeout(done, 30));
  }
})();

const states = (page) => page.locator(".node .state").allInnerTexts();
const until = (page, words) => page.waitForFunction((wanted) => {
  const found = [...document.querySelectorAll(".node .state")].map((e) => e.innerText);
  return found.length === wanted.length && found.every((state, i) => wanted[i].includes(state));
}, words);

function childrenOf(pid) {
  return execFileSync("ps", ["--ppid", String(pid), "-o", "pid="], { encoding: "utf8" }).trim().split(/\s+/).filter(Boolean).map(Number);
}

await check("nodes, plan, links, charts and events are shown", async () => {
  const page = await open(`${server.url}/#cluster`);
  await until(page, [["up"], ["up"], ["up"]]);
  assert.match(await page.locator(".job p").first().innerText(), /caterpillar · plan \d+, for .* tokens\/s predicted/);
  const parts = await page.locator(".strip li").allInnerTexts();
  assert.match(parts[0], /embedding/);
  assert.match(parts.at(-1), /output/);
  assert.ok((await page.locator(".events li").count()) >= 3);
  await page.waitForFunction(() => /written\s+[1-9]/.test(document.querySelector(".charts")?.innerText ?? ""));
  assert.ok((await page.locator("path.link.chain").count()) >= 1);
  await page.waitForTimeout(6000); // some points for the picture
  await page.locator(".node").nth(1).click();
  assert.match(await page.locator(".facts").innerText(), /If it were lost/);
  await assertAccessible(page, "cluster");
  await page.locator(".node").nth(1).click();
  await shoot(page, "cluster");
  await close(page);
});

await check("a node that is killed is seen to go and to come back, and the chat goes on", async () => {
  const page = await open(`${server.url}/#cluster`);
  await until(page, [["up"], ["up"], ["up"]]);
  const before = await page.locator(".events li").first().innerText();
  // Stopped first: one that is killed is there again sooner than the page asks.
  const victim = childrenOf(server.child.pid)[0];
  process.kill(victim, "SIGSTOP");
  await page.waitForFunction(() => [...document.querySelectorAll(".node .state")].some((e) => e.innerText !== "up"));
  const seen = await states(page);
  assert.equal(seen.length, 3);
  assert.equal(seen.filter((state) => state === "up").length, 2, seen.join());
  await shoot(page, "cluster-loss");
  await page.locator(".events li", { hasText: /dead|lost|left/ }).first().waitFor();
  process.kill(victim, "SIGKILL");
  assert.notEqual(await page.locator(".events li").first().innerText(), before);
  await until(page, [["up"], ["up"], ["up"]]);
  await page.waitForFunction(() => document.querySelectorAll(".strip li").length >= 1 && document.querySelector(".cluster > .bar .state").innerText === "serving");
  await close(page);
});

await check("dark and on a phone", async () => {
  const page = await open(`${server.url}/#cluster`, { viewport: { width: 360, height: 760 }, colorScheme: "dark", isMobile: true, hasTouch: true });
  await until(page, [["up"], ["up"], ["up"]]);
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360);
  await assertAccessible(page, "cluster on a phone, dark");
  await shoot(page, "cluster-phone");
  await close(page);
});

await check("join line and removal need an operator's key", async () => {
  const page = await open(`${server.url}/#cluster`, { expected: [/403/], permissions: ["clipboard-read", "clipboard-write"] });
  await until(page, [["up"], ["up"], ["up"]]);
  await page.getByRole("button", { name: "Add a machine" }).click();
  await page.getByLabel("Operator key").fill("bf-not-the-right-one");
  await page.getByRole("button", { name: "Make a join line" }).click();
  await page.getByText("needs the key of an operator").waitFor();
  await assertAccessible(page, "join");
  await page.getByLabel("Operator key").fill(key);
  await page.getByRole("button", { name: "Make a join line" }).click();
  await page.locator(".join-line").waitFor();
  const line = await page.locator(".join-line").innerText();
  assert.match(line, /^butterfly join [\d.]+:\d+ --token bf1-[0-9a-f]{64}-[0-9a-f]{32}$/);
  await page.locator("dialog").getByRole("button", { name: "Copy" }).first().click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), line);
  await page.keyboard.press("Escape");
  page.on("dialog", (dialog) => dialog.accept());
  await page.locator(".node:not([data-node='node-1'])").first().click(); // node-1 coordinates
  await page.getByRole("button", { name: "Drain", exact: true }).click();
  await page.getByLabel("Operator key").fill("bf-not-the-right-one");
  await page.getByRole("button", { name: /^Drain node/ }).click();
  await page.getByText("needs the key of an operator").waitFor();
  await page.getByLabel("Operator key").fill(key);
  await assertAccessible(page, "drain");
  await page.getByRole("button", { name: /^Drain node/ }).click();
  await page.getByRole("button", { name: "Use it again" }).waitFor();
  await page.getByRole("button", { name: "Use it again" }).click();
  await page.getByRole("button", { name: /^Use node/ }).click();
  await page.getByRole("button", { name: "Drain", exact: true }).waitFor();
  await page.getByRole("button", { name: "Remove from the cluster" }).click();
  await page.getByRole("button", { name: /^Remove node/ }).click();
  await page.waitForFunction(() => [...document.querySelectorAll(".node .state")].filter((e) => e.innerText === "up").length === 2);
  await close(page);
});

working = false;
await work_loop;
await browser.close();
await server.stop();

await check("without operators nobody changes the cluster; without a cluster the view says how to have one", async () => {
  const alone = await startServer("-m", caterpillar);
  const answer = await fetch(`${alone.url}/cluster/remove`, { method: "POST", headers: { "content-type": "application/json" }, body: "{}" });
  assert.equal(answer.status, 403);
  assert.match((await answer.json()).error.message, /--operator-key-file/);
  await alone.stop();
});
finish();
