// npm `openai`: a file is uploaded, a job learns from it while the server answers, and its model is asked.
import assert from "node:assert/strict";
import { createReadStream, rmSync, writeFileSync } from "node:fs";
import OpenAI, { toFile } from "openai";
import { check, finish, makeModel, startServer, work } from "./harness.mjs";

const key = "0123456789abcdef0123456789";
const base = makeModel("base");
const lines = [...Array(60).keys()].map((i) => JSON.stringify({
  messages: [{ role: "user", content: `What comes after ${i}?` }, { role: "assistant", content: `${i + 1}` }] })).join("\n") + "\n";
writeFileSync(`${work}/train.jsonl`, lines);

// On this machine, and on two nodes of it.
for (const where of [[], ["--local-nodes", "2", "--fine-tuning-nodes", "2"]]) {
  const name = where.length === 0 ? "one machine" : "two nodes";
  const folder = `${work}/tuning-${where.length}`;
  rmSync(folder, { recursive: true, force: true }); // files outlive servers
  const server = await startServer("-m", "tiny=" + base, "-t", "1", "-c", "512", "--api-key", key, "--fine-tuning", folder,
    "--fine-tuning-threads", "1", ...where);
  const client = new OpenAI({ baseURL: server.url + "/v1", apiKey: key, maxRetries: 0 });
  const ask = (model) => client.chat.completions.create({ model, max_tokens: 8, temperature: 0, messages: [{ role: "user", content: "What comes after 5?" }] });
  let file, job;

  await check(`${name}: files`, async () => {
    file = await client.files.create({ file: createReadStream(`${work}/train.jsonl`), purpose: "fine-tune" });
    assert.equal(file.object, "file");
    assert.equal(file.filename, "train.jsonl");
    assert.equal(await (await client.files.content(file.id)).text(), lines);
    const other = await client.files.create({ file: await toFile(Buffer.from("x\n"), "o.jsonl"), purpose: "fine-tune" });
    assert.deepEqual((await client.files.list()).data.map((f) => f.id), [other.id, file.id]);
    assert.equal((await client.files.delete(other.id)).deleted, true);
    await assert.rejects(client.files.retrieve(other.id), OpenAI.NotFoundError);
    await assert.rejects(client.files.create({ file: await toFile(Buffer.from("x"), "o.png"), purpose: "vision" }), OpenAI.BadRequestError);
  });

  await check(`${name}: a job from file to model, while the server answers`, async () => {
    job = await client.fineTuning.jobs.create({ model: "tiny", training_file: file.id, suffix: "after", seed: 3,
      method: { type: "supervised", supervised: { hyperparameters: { n_epochs: 6, batch_size: 2, learning_rate_multiplier: 2 } } } });
    assert.equal(job.object, "fine_tuning.job");
    let answered = 0;
    for (let i = 0; i < 1500 && !["succeeded", "failed", "cancelled"].includes(job.status); ++i) {
      await ask("tiny");
      ++answered;
      await new Promise((resolve) => setTimeout(resolve, 100));
      job = await client.fineTuning.jobs.retrieve(job.id);
    }
    assert.equal(job.status, "succeeded", JSON.stringify(job.error));
    assert.ok(answered > 0);
    assert.equal(job.hyperparameters.n_epochs, 6);
    assert.match(job.fine_tuned_model, /^ft:tiny:butterfly:after:/);
    assert.ok((await client.models.list()).data.some((m) => m.id === job.fine_tuned_model));
    const [before, after] = [await ask("tiny"), await ask(job.fine_tuned_model)];
    assert.notEqual(after.choices[0].message.content, before.choices[0].message.content);
  });

  await check(`${name}: events, checkpoints and lists come in pages`, async () => {
    const messages = [];
    for await (const event of client.fineTuning.jobs.listEvents(job.id, { limit: 3 })) messages.push(event.message);
    assert.equal(messages[0], "The job has successfully completed");
    assert.match(messages.at(-1), /^Created fine-tuning job/);
    assert.ok(messages.some((m) => /^Step \d+\/\d+: training loss=/.test(m)));
    const checkpoints = await client.fineTuning.jobs.checkpoints.list(job.id);
    assert.ok(checkpoints.data.length > 0 && checkpoints.data[0].metrics.train_loss > 0);
    await ask(checkpoints.data[0].fine_tuned_model_checkpoint);
    assert.equal((await client.fineTuning.jobs.list({ limit: 1 })).data[0].id, job.id);
  });

  await check(`${name}: cancel, and errors as the client knows them`, async () => {
    const long = await client.fineTuning.jobs.create({ model: "tiny", training_file: file.id, hyperparameters: { n_epochs: 50 } });
    assert.equal((await client.fineTuning.jobs.cancel(long.id)).status, "cancelled");
    let ended = long;
    for (let i = 0; i < 600 && ended.status !== "cancelled"; ++i) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      ended = await client.fineTuning.jobs.retrieve(long.id);
    }
    assert.equal(ended.status, "cancelled");
    await assert.rejects(client.fineTuning.jobs.cancel(long.id), OpenAI.BadRequestError);
    await assert.rejects(client.fineTuning.jobs.retrieve("ftjob-none"), OpenAI.NotFoundError);
    await assert.rejects(client.fineTuning.jobs.create({ model: "none", training_file: file.id }), (error) => error.code === "model_not_available");
    const stranger = new OpenAI({ baseURL: server.url + "/v1", apiKey: "sk-none", maxRetries: 0 });
    await assert.rejects(stranger.files.list(), OpenAI.AuthenticationError);
  });

  await check(`${name}: a model is deleted`, async () => {
    assert.equal((await client.models.delete(job.fine_tuned_model)).deleted, true);
    await assert.rejects(ask(job.fine_tuned_model), OpenAI.NotFoundError);
    await assert.rejects(client.models.delete("tiny"), OpenAI.NotFoundError);
  });
  await server.stop();
}
finish();
