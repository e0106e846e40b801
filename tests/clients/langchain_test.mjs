// npm @langchain/openai and @langchain/ollama: invoke, stream, tools, structured output, embeddings.
import assert from "node:assert/strict";
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { ChatOllama } from "@langchain/ollama";
import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { assertLight, check, finish, lightSchema, makeModel, startServer } from "./harness.mjs";

const server = await startServer("-m", "tiny=" + makeModel("langchain"), "-t", "1");
const options = { model: "tiny", apiKey: "none", maxRetries: 0, configuration: { baseURL: server.url + "/v1" } };
const chat = new ChatOpenAI({ ...options, maxTokens: 12, modelKwargs: { seed: 3 } });

await check("invoke and stream are the same", async () => {
  const whole = await chat.invoke([["system", "Be brief"], ["human", "Hello"]]);
  let text = "";
  for await (const part of await chat.stream([["system", "Be brief"], ["human", "Hello"]])) text += part.content;
  assert.equal(text, whole.content);
});

await check("structured output", async () => {
  const light = new ChatOpenAI({ ...options, maxTokens: 1200 }).withStructuredOutput({ title: "light", ...lightSchema }, { method: "jsonSchema", strict: true });
  assertLight(await light.invoke("Light"));
});

await check("a tool is called", async () => {
  const bound = new ChatOpenAI({ ...options, maxTokens: 1200 }).bindTools(
    [{ type: "function", function: { name: "light", description: "", parameters: lightSchema } }], { tool_choice: "required" });
  const answer = await bound.invoke("Light");
  assert.equal(answer.tool_calls[0].name, "light");
  assertLight(answer.tool_calls[0].args);
});

await check("an agent's loop", async () => {
  const bound = new ChatOpenAI({ ...options, maxTokens: 600 }).bindTools(
    [{ type: "function", function: { name: "light", description: "", parameters: lightSchema } }], { tool_choice: "required" });
  const messages = [new HumanMessage("Light in the hall, please")];
  for (let turn = 0; turn < 3; ++turn) {
    const answer = await bound.invoke(messages);
    assert.ok(answer.tool_calls.length > 0);
    messages.push(answer);
    for (const call of answer.tool_calls) {
      assertLight(call.args);
      messages.push(new ToolMessage({ tool_call_id: call.id, content: "done" }));
    }
  }
  const last = await new ChatOpenAI({ ...options, maxTokens: 8 }).invoke(messages);
  assert.equal(typeof last.content, "string");
});

await check("embeddings", async () => {
  const vectors = await new OpenAIEmbeddings({ ...options }).embedDocuments(["a", "b"]);
  assert.equal(vectors.length, 2);
  assert.equal(vectors[0].length, 64);
});

await check("the Ollama side", async () => {
  const answer = await new ChatOllama({ baseUrl: server.url, model: "tiny", numPredict: 8, seed: 1 }).invoke("Hello");
  assert.equal(typeof answer.content, "string");
});

await check("SIGTERM ends it cleanly", async () => assert.equal(await server.stop(), 0));
finish();
