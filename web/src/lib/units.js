// Numbers as people read them.
export function bytes(n) {
  const names = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  for (; n >= 999.5 && i < names.length - 1; ++i) n /= 1000;
  return `${i === 0 || n >= 99.95 ? Math.round(n) : n.toFixed(1)} ${names[i]}`;
}

export function seconds(s) {
  if (s < 1e-3) return `${Math.round(s * 1e6)} µs`;
  if (s < 1) return s < 0.01 ? `${(s * 1e3).toFixed(1)} ms` : `${Math.round(s * 1e3)} ms`;
  if (s < 120) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  if (s < 172800) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} days`;
}

export function rate(n) {
  return n >= 99.95 ? String(Math.round(n)) : n.toFixed(1);
}

// Pieces begin..end (not included) of `pieces` in words. A model is cut into its embedding, its layers and its output, and
// people count the layers only: "embedding, layers 0–2", "layer 3, output".
export function layers(begin, end, pieces) {
  const first = Math.max(begin, 1) - 1, last = Math.min(end, pieces - 1) - 2;
  const words = [];
  if (begin === 0) words.push("embedding");
  if (last >= first) words.push(first === last ? `layer ${first}` : `layers ${first}–${last}`);
  if (end === pieces) words.push("output");
  return words.join(", ");
}

export function plural(n, word) {
  return `${n} ${word}${n === 1 ? "" : "s"}`;
}
