// npm `@anthropic-ai/sdk`: messages, streams event by event, tools, thinking, counts, errors, an agent's loop.
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import { assertLight, check, finish, lightSchema, makeModel, setTemplate, startServer } from "./harness.mjs";

const key = "bf-0123456789abcdef";
const plain = makeModel("anthropic");
// A template that opens reasoning unless it is told not to, and one that knows tools.
const thinker = setTemplate(plain, "thinker",
  "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}" +
  "{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking %}<think>\n{% else %}<think></think>{% endif %}{% endif %}");
const server = await startServer("-m", "tiny=" + plain, "-m", "thinker=" + thinker, "-t", "1", "--api-key", key);
const client = new Anthropic({ baseURL: server.url, apiKey: key, maxRetries: 0 });
const ask = (more = {}) => ({ model: "tiny", max_tokens: 12, seed: 7, messages: [{ role: "user", content: "Hello" }], ...more });
const tools = [{ name: "light", description: "Switches a light", input_schema: lightSchema }];

await check("a message", async () => {
  const message = await client.messages.create(ask());
  assert.equal(message.type, "message");
  assert.equal(message.role, "assistant");
  assert.equal(message.content[0].type, "text");
  assert.equal(message.stop_reason, "max_tokens");
  assert.equal(message.stop_sequence, null);
  assert.equal(message.usage.output_tokens, 12);
  assert.ok(message.id.startsWith("msg_"));
});

await check("a stream has every event in its order, and is the same text", async () => {
  const whole = await client.messages.create(ask());
  const names = [];
  let text = "";
  for await (const event of await client.messages.create(ask({ stream: true }))) {
    if (names.at(-1) !== event.type) names.push(event.type);
    if (event.type === "content_block_delta") text += event.delta.text;
  }
  assert.deepEqual(names, ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"]);
  assert.equal(text, whole.content[0].text);
  const final = await client.messages.stream(ask()).finalMessage();
  assert.deepEqual(final.content, whole.content);
  assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
  assert.equal(final.stop_reason, "max_tokens");
});

await check("a stop sequence", async () => {
  const text = (await client.messages.create(ask({ max_tokens: 40 }))).content[0].text;
  const stop = text.match(/[a-zA-Z0-9 .,]/)[0]; // random weights write odd bytes, which no client could send back
  const message = await client.messages.create(ask({ max_tokens: 40, stop_sequences: [stop] }));
  assert.equal(message.stop_reason, "stop_sequence");
  assert.equal(message.stop_sequence, stop);
  assert.equal(message.content[0].text, text.slice(0, text.indexOf(stop)));
});

await check("an agent's loop: tools are called and their results come back", async () => {
  const messages = [{ role: "user", content: "Light in the hall, please" }];
  for (let turn = 0; turn < 3; ++turn) {
    const message = await client.messages.create(ask({ messages, tools, tool_choice: { type: "any" }, max_tokens: 600,
      system: [{ type: "text", text: "You switch lights.", cache_control: { type: "ephemeral" } }] }));
    assert.equal(message.stop_reason, "tool_use");
    const use = message.content.find((block) => block.type === "tool_use");
    assert.equal(use.name, "light");
    assertLight(use.input);
    messages.push({ role: "assistant", content: message.content },
      { role: "user", content: [{ type: "tool_result", tool_use_id: use.id, content: [{ type: "text", text: "done" }] }] });
  }
  const last = await client.messages.create(ask({ messages, tools, tool_choice: { type: "none" } }));
  assert.equal(last.content[0].type, "text");
});

await check("a call streams", async () => {
  const stream = client.messages.stream(ask({ tools, tool_choice: { type: "tool", name: "light" }, max_tokens: 600 }));
  const names = [];
  stream.on("streamEvent", (event) => names.push(event.type));
  const final = await stream.finalMessage();
  assertLight(final.content.find((block) => block.type === "tool_use").input);
  assert.deepEqual([names[0], names.at(-2), names.at(-1)], ["message_start", "message_delta", "message_stop"]);
  assert.equal(names.filter((n) => n === "content_block_start").length, names.filter((n) => n === "content_block_stop").length);
});

await check("thinking comes in blocks of its own, within its budget", async () => {
  const off = await client.messages.create(ask({ model: "thinker" }));
  assert.deepEqual(off.content.map((block) => block.type), ["text"]);
  const request = ask({ model: "thinker", max_tokens: 1200, thinking: { type: "enabled", budget_tokens: 20 } });
  const on = await client.messages.create(request);
  assert.equal(on.content[0].type, "thinking");
  assert.ok(on.content[0].signature.length > 0);
  const types = [];
  for await (const event of await client.messages.create({ ...request, stream: true }))
    if (event.type === "content_block_delta" && types.at(-1) !== event.delta.type) types.push(event.delta.type);
  assert.deepEqual(types.slice(0, 2), ["thinking_delta", "signature_delta"]);
  // It may be sent back.
  await client.messages.create(ask({ model: "thinker", messages: [...ask().messages, { role: "assistant", content: on.content }, ...ask().messages] }));
});

await check("tokens are counted as they will be read", async () => {
  const count = await client.messages.countTokens({ model: "tiny", messages: ask().messages, system: "Be brief", tools });
  const message = await client.messages.create(ask({ system: "Be brief", tools, tool_choice: { type: "auto" } }));
  const usage = message.usage;
  assert.equal(usage.input_tokens + usage.cache_read_input_tokens, count.input_tokens);
});

await check("a line for the biller that changes does not spoil what is kept", async () => {
  const system = (n) => [{ type: "text", text: `x-anthropic-billing-header: cc_version=2; cch=${n};` }, { type: "text", text: "You are helpful. ".repeat(20) }];
  await client.messages.create(ask({ system: system("aaaa1") }));
  const second = await client.messages.create(ask({ system: system("bbbb2") }));
  assert.ok(second.usage.cache_read_input_tokens > 100, JSON.stringify(second.usage));
});

await check("many small calls at once", async () => {
  const seeds = [...Array(24).keys()];
  const all = await Promise.all(seeds.map((seed) => client.messages.create(ask({ seed, max_tokens: 4 }), { maxRetries: 5 })));
  assert.ok(all.every((m) => m.usage.output_tokens <= 4));
});

await check("JSON by schema", async () => {
  const message = await client.messages.create(ask({ max_tokens: 200, output_config: { format: { type: "json_schema", schema: lightSchema } } }));
  assertLight(JSON.parse(message.content[0].text));
});

await check("errors become the client's classes", async () => {
  await assert.rejects(client.messages.create(ask({ model: "claude-9" })), (e) => e instanceof Anthropic.NotFoundError && e.error.error.type === "not_found_error");
  await assert.rejects(client.messages.create(ask({ temperature: 99 })), (e) => e instanceof Anthropic.BadRequestError && /temperature/.test(e.message));
  await assert.rejects(client.messages.create(ask({ messages: [{ role: "user", content: [{ type: "image", source: {} }] }] })),
    (e) => e instanceof Anthropic.BadRequestError && /messages\[0\]\.content\[0\]\.type/.test(e.message));
  const stranger = new Anthropic({ baseURL: server.url, apiKey: "wrong-wrong-wrong", maxRetries: 0 });
  await assert.rejects(stranger.messages.create(ask()), (e) => e instanceof Anthropic.AuthenticationError);
  assert.equal((await client.models.list()).data[0].id, "tiny");
});

await check("SIGTERM ends it cleanly", async () => assert.equal(await server.stop(), 0));
finish();
