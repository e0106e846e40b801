// The text of /metrics as sums over models: {name: value}. Buckets of histograms are left out.
export function readMetrics(text) {
  const out = {};
  for (const line of text.split("\n")) {
    const found = line.match(/^([a-zA-Z_:][\w:]*)(\{[^}]*\})? ([-+.\w]+)$/);
    if (!found || found[1].endsWith("_bucket")) continue;
    const value = Number(found[3]);
    if (Number.isFinite(value)) out[found[1]] = (out[found[1]] ?? 0) + value;
  }
  return out;
}
