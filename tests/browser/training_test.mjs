// The training view: a real run on three processes, watched while it goes on; a folder without one; damaged files.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { assertAccessible, browser, close, open, repository, shoot } from "./browser.mjs";
import { check, finish, startServer, work } from "./harness.mjs";

const butterfly = process.argv[2];
const caterpillar = `${repository}/models/caterpillar.gguf`;
const out = `${work}/run`, none = `${work}/none`, odd = `${work}/odd`;
for (const folder of [out, none, odd]) mkdirSync(folder, { recursive: true });
writeFileSync(`${odd}/run.json`, '{"steps": "many", "name": "<img src=x onerror=alert(1)>", "memory_bytes": {"weights": 1}}');
writeFileSync(`${odd}/metrics.jsonl`, '{"step": 1, "loss": 2.5}\n{"step"');
writeFileSync(`${work}/text.txt`, "The owl lives in a tree and the frog lives in a pond. ".repeat(400));
writeFileSync(`${work}/cfg.yml`, `base_model: ${caterpillar}\ndatasets: [text.txt]\nval_set_size: 0.1\nsequence_len: 64\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\nmax_steps: 100000\neval_steps: 20\nlearning_rate: 0.0005\noutput_dir: ${out}\n`);

const server = await startServer("-m", caterpillar, "--training", out, "--training", none, "--training", odd);
const run = spawn(butterfly, ["train", `${work}/cfg.yml`, "--local-nodes", "3"], { stdio: "ignore" });

await check("loss, speed, memory, time left and nodes of a run that goes on", async () => {
  const page = await open(`${server.url}/#training`, { viewport: { width: 1200, height: 630 } });
  const section = page.getByRole("region", { name: "Run run" });
  await section.getByText("running").waitFor();
  await section.getByText(/tokens\/s$/).first().waitFor();
  await page.waitForFunction(() => document.querySelectorAll(".run tbody tr").length === 3);
  const facts = await section.locator("dl").innerText();
  for (const name of ["Step", "Loss", "Speed", "Left", "Memory", "Nodes"]) assert.match(facts, new RegExp(`^${name}$`, "m"));
  assert.match(facts, /of 100000/);
  assert.match(facts, /weights .*optimizer/);
  const step = async () => Number((await section.locator("dd").first().innerText()).split(" ")[0]);
  const before = await step();
  await page.waitForFunction((n) => Number(document.querySelector(".run dd").innerText.split(" ")[0]) > n, before);
  assert.ok((await section.locator("canvas").count()) === 2);
  await assertAccessible(page, "training");
  await shoot(page, "training");
  await close(page);
});

await check("a folder without a run, and one with damaged files, say so; names are text", async () => {
  const page = await open(`${server.url}/#training`, { viewport: { width: 360, height: 760 }, colorScheme: "dark", isMobile: true });
  await page.getByText("no run has begun here").waitFor();
  await page.getByText("<img src=x onerror=alert(1)>").waitFor();
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360);
  await assertAccessible(page, "training on a phone, dark");
  await close(page);
});

await check("a run that is paused and one that is stopped", async () => {
  const page = await open(`${server.url}/#training`);
  await new Promise((done) => spawn(butterfly, ["train", "pause", "--output_dir", out], { stdio: "ignore" }).on("exit", done));
  await page.getByRole("region", { name: "Run run" }).getByText("paused").waitFor();
  run.kill("SIGTERM");
  await page.getByRole("region", { name: "Run run" }).getByText("stopped").waitFor();
  await close(page);
});
if (run.exitCode === null) run.kill("SIGKILL");
await server.stop();

await check("without --training the view says how to have one", async () => {
  const alone = await startServer("-m", caterpillar);
  const page = await open(`${alone.url}/#training`, { expected: [/404/] });
  await page.getByText("was told of no training run").waitFor();
  await close(page);
  await alone.stop();
});
await browser.close();
finish();
