// What the charts and the table of a run show.

// Columns of the charts: steps, loss, validation, items/s.
export function columnsOf(run) {
  return [0, 1, 2, 3].map((i) => (run.points ?? []).map((point) => point[i]));
}

// Where the nodes' time went: rows of a name and seconds, in the order that the server has them.
export function timesOf(run) {
  const names = [...new Set((run.nodes ?? []).flatMap((node) => Object.keys(node.seconds ?? {})))];
  return { names, rows: (run.nodes ?? []).map((node) => ({ node, seconds: names.map((name) => node.seconds?.[name] ?? 0) })) };
}
