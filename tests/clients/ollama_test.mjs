// npm `ollama`: list, show, ps, chat, generate, tools, schema, embed, errors.
import assert from "node:assert/strict";
import { Ollama } from "ollama";
import { assertLight, check, finish, lightSchema, makeModel, startServer } from "./harness.mjs";

const server = await startServer("-m", "tiny=" + makeModel("ollama"), "-t", "1");
const client = new Ollama({ host: server.url });
const ask = (more = {}) => ({ model: "tiny", messages: [{ role: "user", content: "Hello" }], options: { num_predict: 10, seed: 5 }, ...more });

await check("list, ps, show", async () => {
  assert.equal((await client.list()).models[0].name, "tiny");
  assert.equal((await client.ps()).models[0].context_length, 2048);
  assert.equal((await client.show({ model: "tiny" })).model_info["general.architecture"], "llama");
});

await check("a conversation, whole and streamed", async () => {
  const whole = await client.chat(ask());
  let text = "", last;
  for await (const part of await client.chat(ask({ stream: true }))) {
    text += part.message.content;
    last = part;
  }
  assert.equal(text, whole.message.content);
  assert.equal(last.done, true);
  assert.equal(last.eval_count, 10);
  const next = await client.chat(ask({ messages: [...ask().messages, whole.message, { role: "user", content: "Go on" }] }));
  assert.ok(next.prompt_eval_count > whole.prompt_eval_count);
});

await check("generate", async () => {
  const answer = await client.generate({ model: "tiny", prompt: "Once", options: { num_predict: 5 } });
  assert.equal(typeof answer.response, "string");
});

await check("JSON by schema", async () => {
  const answer = await client.chat(ask({ format: lightSchema, options: { num_predict: 1200, seed: 5 } }));
  assertLight(JSON.parse(answer.message.content));
});

await check("a tool is called", async () => {
  const tools = [{ type: "function", function: { name: "light", description: "", parameters: lightSchema } }];
  // Random weights call nothing by themselves: a grammar makes this one do it.
  const grammar = 'root ::= "<tool_call>\\n{\\"name\\": \\"light\\", \\"arguments\\": {\\"on\\": true, \\"room\\": \\"hall\\"}}\\n</tool_call>"';
  const answer = await client.chat(ask({ tools, options: { num_predict: 1200, grammar } }));
  assert.equal(answer.message.tool_calls[0].function.name, "light");
  assertLight(answer.message.tool_calls[0].function.arguments);
});

await check("an agent's loop", async () => {
  const tools = [{ type: "function", function: { name: "light", description: "", parameters: lightSchema } }];
  const messages = [{ role: "user", content: "Light in the hall, please" }];
  for (const on of [true, false, true]) {
    const grammar = `root ::= "<tool_call>\\n{\\"name\\": \\"light\\", \\"arguments\\": {\\"on\\": ${on}, \\"room\\": \\"hall\\"}}\\n</tool_call>"`;
    let calls = [];
    for await (const part of await client.chat(ask({ messages, tools, stream: true, options: { num_predict: 600, grammar } }))) {
      calls.push(...(part.message.tool_calls ?? []));
      if (part.message.content || part.message.tool_calls) messages.push(part.message);
    }
    assert.equal(calls.length, 1);
    assert.deepEqual(calls[0].function.arguments, { on, room: "hall" });
    messages.push({ role: "tool", content: "done", tool_name: "light" });
  }
  const last = await client.chat(ask({ messages, tools }));
  assert.equal(typeof last.message.content, "string");
});

await check("embed", async () => {
  const answer = await client.embed({ model: "tiny", input: ["a", "b"] });
  assert.equal(answer.embeddings.length, 2);
  assert.equal(answer.embeddings[0].length, 64);
});

await check("errors", async () => {
  await assert.rejects(client.chat(ask({ model: "none" })), /does not exist/);
  await assert.rejects(client.chat(ask({ options: { temperature: -3 } })), /options.temperature/);
});

await check("SIGTERM ends it cleanly", async () => assert.equal(await server.stop(), 0));
finish();
