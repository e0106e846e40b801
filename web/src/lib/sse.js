// Server-sent events out of a stream of bytes: calls `each` with the data of every event.
export async function readEvents(stream, each) {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    rest += decoder.decode(value ?? new Uint8Array(), { stream: !done });
    let end;
    while ((end = rest.search(/\r?\n\r?\n/)) >= 0) {
      const event = rest.slice(0, end);
      rest = rest.slice(end).replace(/^\r?\n\r?\n/, "");
      const data = event.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5).replace(/^ /, "")).join("\n");
      if (data) each(data);
    }
    if (done) return;
  }
}
