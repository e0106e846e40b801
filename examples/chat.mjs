// One question to a running server, streamed, with nothing but node 18: node chat.mjs "What is 7 plus 5?" [URL]
const [question, url = 'http://127.0.0.1:8080'] = process.argv.slice(2);
if (!question) throw new Error('usage: node chat.mjs QUESTION [URL]');
const response = await fetch(`${url}/v1/chat/completions`, {
  method: 'POST',
  headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify({ messages: [{ role: 'user', content: question }], temperature: 0, stream: true }),
});
if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
let rest = '';
for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + piece).split('\n');
  rest = lines.pop();
  for (const line of lines) {
    if (!line.startsWith('data: ') || line === 'data: [DONE]') continue;
    process.stdout.write(JSON.parse(line.slice(6)).choices[0]?.delta?.content ?? '');
  }
}
process.stdout.write('\n');
