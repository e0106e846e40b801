// npm `ai` with @ai-sdk/openai-compatible: text, stream, tools, objects, embeddings.
import assert from "node:assert/strict";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embedMany, generateObject, generateText, isStepCount, jsonSchema, streamText, tool } from "ai";
import { assertLight, check, finish, lightSchema, makeModel, startServer } from "./harness.mjs";

const server = await startServer("-m", "tiny=" + makeModel("ai"), "-t", "1");
const provider = createOpenAICompatible({ name: "butterfly", baseURL: server.url + "/v1", supportsStructuredOutputs: true });
const base = { model: provider("tiny"), maxOutputTokens: 12, seed: 7, maxRetries: 0 };

await check("text and stream are the same", async () => {
  const whole = await generateText({ ...base, messages: [{ role: "user", content: "Hello" }] });
  const stream = streamText({ ...base, messages: [{ role: "user", content: "Hello" }] });
  let text = "";
  for await (const part of stream.textStream) text += part;
  assert.equal(text, whole.text);
  assert.ok(whole.usage.outputTokens > 0);
});

await check("a tool is called", async () => {
  const answer = await generateText({
    ...base, maxOutputTokens: 1200, prompt: "Light", toolChoice: "required",
    tools: { light: tool({ description: "Switches a light", inputSchema: jsonSchema(lightSchema) }) },
  });
  assert.equal(answer.toolCalls[0].toolName, "light");
  assertLight(answer.toolCalls[0].input);
});

await check("an agent's loop, whole and streamed", async () => {
  const switched = [];
  const light = tool({ description: "Switches a light", inputSchema: jsonSchema(lightSchema), execute: async (args) => { switched.push(args); return "done"; } });
  const asked = { ...base, maxOutputTokens: 600, prompt: "Light", toolChoice: "required", tools: { light }, stopWhen: isStepCount(3) };
  const whole = await generateText(asked);
  assert.equal(whole.steps.length, 3);
  const stream = streamText(asked);
  await stream.consumeStream();
  assert.equal((await stream.steps).length, 3);
  assert.equal(switched.length, 6);
  switched.forEach(assertLight);
});

await check("an object by schema", async () => {
  const answer = await generateObject({ ...base, maxOutputTokens: 1200, schema: jsonSchema(lightSchema), prompt: "Light" });
  assertLight(answer.object);
});

await check("embeddings", async () => {
  const { embeddings } = await embedMany({ model: provider.embeddingModel ? provider.embeddingModel("tiny") : provider.textEmbeddingModel("tiny"), values: ["a", "b"], maxRetries: 0 });
  assert.equal(embeddings.length, 2);
});

await check("errors", async () => {
  await assert.rejects(generateText({ ...base, model: provider("none"), prompt: "x" }), (e) => e.statusCode === 404);
});

await check("SIGTERM ends it cleanly", async () => assert.equal(await server.stop(), 0));
finish();
