// npm `openai`: conversation, streams, tools, JSON by schema, embeddings, completions, responses, errors.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { assertLight, check, finish, lightSchema, makeModel, startServer } from "./harness.mjs";

const server = await startServer("-m", "tiny=" + makeModel("openai"), "-t", "1");
const client = new OpenAI({ baseURL: server.url + "/v1", apiKey: "none", maxRetries: 0 });
const ask = (more = {}) => ({ model: "tiny", max_tokens: 12, seed: 7, messages: [{ role: "user", content: "Hello" }], ...more });
const tools = [{ type: "function", function: { name: "light", description: "Switches a light", parameters: lightSchema } }];

await check("models", async () => {
  const models = await client.models.list();
  assert.deepEqual(models.data.map((m) => m.id), ["tiny"]);
  assert.equal((await client.models.retrieve("tiny")).object, "model");
});

await check("a conversation goes on", async () => {
  const first = await client.chat.completions.create(ask());
  const message = first.choices[0].message;
  assert.equal(message.role, "assistant");
  assert.equal(message.refusal, null);
  assert.equal(first.choices[0].logprobs, null);
  const second = await client.chat.completions.create(ask({ messages: [...ask().messages, message, { role: "user", content: "And then?" }] }));
  assert.ok(second.usage.prompt_tokens > first.usage.prompt_tokens);
  assert.ok(second.usage.prompt_tokens_details.cached_tokens >= 0);
});

await check("a stream is the same text", async () => {
  const whole = await client.chat.completions.create(ask());
  const stream = await client.chat.completions.create(ask({ stream: true, stream_options: { include_usage: true } }));
  let text = "", usage = null, reason = null;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? "";
    reason ??= chunk.choices[0]?.finish_reason;
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(reason, whole.choices[0].finish_reason);
  assert.deepEqual(usage.completion_tokens, whole.usage.completion_tokens);
});

await check("16 at once give what each gives alone", async () => {
  const seeds = [...Array(16).keys()];
  const alone = [];
  for (const seed of seeds) alone.push((await client.chat.completions.create(ask({ seed }))).choices[0].message.content);
  const together = await Promise.all(seeds.map((seed) => client.chat.completions.create(ask({ seed }))));
  assert.deepEqual(together.map((a) => a.choices[0].message.content), alone);
});

await check("a tool is called, and its result goes back", async () => {
  const answer = await client.chat.completions.create(ask({ tools, tool_choice: "required", max_tokens: 1200 }));
  const call = answer.choices[0].message.tool_calls[0];
  assert.equal(answer.choices[0].finish_reason, "tool_calls");
  assert.equal(call.function.name, "light");
  assertLight(JSON.parse(call.function.arguments));
  const after = await client.chat.completions.create(ask({
    tools, messages: [...ask().messages, answer.choices[0].message, { role: "tool", tool_call_id: call.id, content: "done" }],
  }));
  assert.ok(after.usage.prompt_tokens > answer.usage.prompt_tokens);
});

await check("an agent's loop over chat: the client runs tools until it has enough", async () => {
  const messages = [{ role: "user", content: "Light in the hall, please" }];
  let before = 0;
  for (let turn = 0; turn < 3; ++turn) {
    const answer = await client.chat.completions.create(ask({ messages, tools, tool_choice: "required", max_tokens: 600, seed: turn }));
    const message = answer.choices[0].message;
    assert.equal(answer.choices[0].finish_reason, "tool_calls");
    for (const call of message.tool_calls) assertLight(JSON.parse(call.function.arguments));
    messages.push(message, ...message.tool_calls.map((call) => ({ role: "tool", tool_call_id: call.id, content: "done" })));
    if (turn > 0) assert.ok(answer.usage.prompt_tokens_details.cached_tokens > before, "what was read stays");
    before = answer.usage.prompt_tokens_details.cached_tokens;
  }
  const last = await client.chat.completions.create(ask({ messages, tools, tool_choice: "none" }));
  assert.equal(last.choices[0].message.tool_calls ?? null, null);
});

await check("the client's own loop", async () => {
  const switched = [];
  const light = { type: "function", function: { name: "light", description: "Switches a light", parameters: lightSchema, parse: JSON.parse, function: (args) => { switched.push(args); return "done"; } } };
  const runner = client.chat.completions.runTools(ask({ tools: [light], tool_choice: "required", max_tokens: 600, stream: true }), { maxChatCompletions: 3 });
  await runner.done();
  assert.equal(switched.length, 3);
  switched.forEach(assertLight);
});

await check("an agent's loop over responses, whole and streamed", async () => {
  const items = [{ role: "user", content: "Light in the hall, please" }];
  const asked = { model: "tiny", max_output_tokens: 600, tools: [{ type: "function", name: "light", strict: true, parameters: lightSchema }], tool_choice: "required" };
  for (let turn = 0; turn < 4; ++turn) {
    let answer;
    if (turn % 2 === 0) answer = await client.responses.create({ ...asked, input: items, seed: turn });
    else
      for await (const event of await client.responses.create({ ...asked, input: items, seed: turn, stream: true }))
        if (event.type === "response.completed") answer = event.response;
    const calls = answer.output.filter((item) => item.type === "function_call");
    assert.ok(calls.length > 0, JSON.stringify(answer.output));
    items.push(...answer.output);
    for (const call of calls) {
      assert.equal(call.name, "light");
      assertLight(JSON.parse(call.arguments));
      items.push({ type: "function_call_output", call_id: call.call_id, output: "done" });
    }
  }
  const last = await client.responses.create({ ...asked, input: items, tool_choice: "none", max_output_tokens: 8 });
  assert.ok(last.output.every((item) => item.type !== "function_call"));
});

await check("a tool call streams", async () => {
  const runner = client.chat.completions.stream(ask({ tools, tool_choice: { type: "function", function: { name: "light" } }, max_tokens: 1200 }));
  const final = await runner.finalChatCompletion();
  assertLight(JSON.parse(final.choices[0].message.tool_calls[0].function.arguments));
});

await check("JSON by schema", async () => {
  const answer = await client.chat.completions.parse(ask({
    max_tokens: 1200, response_format: { type: "json_schema", json_schema: { name: "light", strict: true, schema: lightSchema } },
  }));
  assertLight(answer.choices[0].message.parsed);
  const any = await client.chat.completions.create(ask({ max_tokens: 1200, temperature: 0, response_format: { type: "json_object" } }));
  if (any.choices[0].finish_reason === "stop") assert.equal(typeof JSON.parse(any.choices[0].message.content), "object");
});

await check("embeddings, which this client asks for in base64", async () => {
  const coded = await client.embeddings.create({ model: "tiny", input: ["Hello", "World"] });
  const plain = await client.embeddings.create({ model: "tiny", input: ["Hello", "World"], encoding_format: "float" });
  assert.equal(coded.data.length, 2);
  assert.deepEqual(Array.from(coded.data[0].embedding), Array.from(Float32Array.from(plain.data[0].embedding)));
  assert.ok(Math.abs(plain.data[0].embedding.reduce((s, x) => s + x * x, 0) - 1) < 1e-3);
});

await check("completions with logprobs", async () => {
  const answer = await client.completions.create({ model: "tiny", prompt: "Once", max_tokens: 4, logprobs: 2, n: 2, seed: 1 });
  assert.equal(answer.choices.length, 2);
  assert.equal(answer.choices[0].logprobs.tokens.length, 4);
});

await check("chat logprobs", async () => {
  const answer = await client.chat.completions.create(ask({ logprobs: true, top_logprobs: 3 }));
  for (const token of answer.choices[0].logprobs.content) {
    assert.equal(token.top_logprobs.length, 3);
    assert.ok(token.logprob <= 0);
  }
});

await check("responses, whole and streamed", async () => {
  const whole = await client.responses.create({ model: "tiny", input: "Hello", max_output_tokens: 8, seed: 3 });
  let text = "", last;
  for await (const event of await client.responses.create({ model: "tiny", input: "Hello", max_output_tokens: 8, seed: 3, stream: true })) {
    if (event.type === "response.output_text.delta") text += event.delta;
    last = event;
  }
  assert.equal(text, whole.output_text);
  assert.equal(last.response.id.startsWith("resp_"), true);
});

await check("errors become the client's classes", async () => {
  await assert.rejects(client.chat.completions.create(ask({ model: "gpt-9" })), (e) => e instanceof OpenAI.NotFoundError && e.code === "model_not_found");
  await assert.rejects(client.chat.completions.create(ask({ temperature: 99 })), (e) => e instanceof OpenAI.BadRequestError && e.param === "temperature");
  await assert.rejects(client.chat.completions.create(ask({ messages: [{ role: "user", content: "x".repeat(9000) }] })),
    (e) => e instanceof OpenAI.BadRequestError && e.code === "context_length_exceeded" && /2048/.test(e.message));
  await assert.rejects(client.get("/nothing"), (e) => e.status === 404);
});

await check("an abandoned stream frees its place", async () => {
  const stream = await client.chat.completions.create(ask({ stream: true, max_tokens: 2000, ignore_eos: true }));
  for await (const chunk of stream) if (chunk.choices[0].delta.content) break;
  for (let i = 0; i < 200; ++i) {
    const text = await (await fetch(server.url + "/metrics")).text();
    if (/num_requests_running\{[^}]*\} 0\n/.test(text)) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.fail("it still runs");
});

await check("SIGTERM ends it cleanly", async () => assert.equal(await server.stop(), 0));

await check("an API key", async () => {
  const keyed = await startServer("-m", "tiny=" + `${process.argv[3]}/openai.gguf`, "-t", "1", "--api-key", "bf-0123456789abcdef");
  const bad = new OpenAI({ baseURL: keyed.url + "/v1", apiKey: "wrong-wrong-wrong", maxRetries: 0 });
  await assert.rejects(bad.models.list(), (e) => e instanceof OpenAI.AuthenticationError);
  const good = new OpenAI({ baseURL: keyed.url + "/v1", apiKey: "bf-0123456789abcdef", maxRetries: 0 });
  assert.equal((await good.models.list()).data.length, 1);
  assert.ok(!keyed.log().includes("bf-0123456789abcdef"), "the key is in the log");
  await keyed.stop();
});
finish();
