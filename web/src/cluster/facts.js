// What the picture shows, read off the status of the cluster (docs/cluster.md). Pure.

// Jobs with what older servers have at the top only.
export function jobsOf(status) {
  if (!Array.isArray(status.jobs)) return [{ ...status, job: 1 }];
  return status.jobs.map((job, i) => ({ ...job, words: job.words ?? (i === 0 ? status.words : "") }));
}

// In the order of the chains, the first job's first; then who has no part.
export function orderedNodes(status) {
  const place = new Map();
  for (const job of jobsOf(status)) for (const stage of job.stages ?? []) for (const member of stage.members) if (!place.has(member.key)) place.set(member.key, place.size);
  const rank = (node) => (place.has(node.key) ? place.get(node.key) : 1000 + status.nodes.indexOf(node));
  return [...status.nodes].sort((a, b) => rank(a) - rank(b));
}

// What a node does in each job: [{model, text, bytes, ifLost}].
export function partsOf(status, node, layersText) {
  const parts = [];
  for (const job of jobsOf(status)) {
    for (const stage of job.stages ?? []) {
      const member = stage.members.find((m) => m.key === node.key);
      if (!member) continue;
      const mine = (node.jobs ?? []).find((j) => j.job === job.job);
      const share = stage.members.length > 1 ? shareOf(member.share) : "";
      parts.push({ model: job.model, text: layersText(stage.begin, stage.end, job.layers) + (share && `, ${share}`), bytes: member.bytes, predicted_s: member.predicted_s, ifLost: mine?.if_lost ?? (job.job === 1 ? node.if_lost : undefined), phase: mine?.phase, load: mine?.load });
    }
  }
  return parts;
}

// The largest share of a kind, in percent: heads, feed-forward columns and the others are cut alike.
function shareOf(share) {
  const parts = Object.values(share ?? {}).filter(([, , units]) => units > 0).map(([begin, end, units]) => (end - begin) / units);
  return parts.length ? `${Math.round(100 * Math.max(...parts))} % of each` : "";
}

// Pairs of names with their links: {a, b, rtt_s, bytes_per_s, chain}. The slower direction counts.
export function pairsOf(status) {
  const pairs = new Map();
  const pair = (x, y) => {
    const [a, b] = x < y ? [x, y] : [y, x];
    const key = `${a}\n${b}`;
    if (!pairs.has(key)) pairs.set(key, { a, b, chain: false });
    return pairs.get(key);
  };
  for (const link of status.links ?? []) {
    const row = pair(link.from, link.to);
    row.rtt_s = Math.max(row.rtt_s ?? 0, link.rtt_s);
    row.bytes_per_s = Math.min(row.bytes_per_s ?? Infinity, link.bytes_per_s);
  }
  for (const job of jobsOf(status)) {
    const stages = job.stages ?? [];
    for (let i = 0; i + 1 < stages.length; ++i)
      for (const from of stages[i].members) for (const to of stages[i + 1].members) if (from.node !== to.node) pair(from.node, to.node).chain = true;
    for (const stage of stages)
      for (const one of stage.members) for (const other of stage.members) if (one.node < other.node) pair(one.node, other.node).chain = true;
  }
  for (const row of status.unreachable ?? []) pair(row.from, row.to).broken = row.why;
  return [...pairs.values()];
}

// Rows in snakes, so that neighbours of a chain are neighbours on the page.
export function placesOf(count, width, card, gap) {
  const columns = Math.max(1, Math.min(count, Math.floor((width + gap.x) / (card.width + gap.x))));
  const places = [];
  for (let i = 0; i < count; ++i) {
    const row = Math.floor(i / columns), at = i % columns;
    const column = row % 2 === 0 ? at : columns - 1 - at;
    places.push({ row, column, x: column * (card.width + gap.x), y: row * (card.height + gap.y) });
  }
  const used = columns * (card.width + gap.x) - gap.x;
  const shift = Math.max(0, (width - used) / 2);
  return { columns, places: places.map((p) => ({ ...p, x: p.x + shift })), height: places.length ? places[places.length - 1].y + card.height : 0 };
}

// Microseconds of computing of a node, over its jobs. It starts again at 0 with a new stage.
export function computeUs(node) {
  return (node.jobs ?? []).reduce((sum, job) => sum + (job.work?.compute_us ?? 0), 0) || node.work?.compute_us || 0;
}
