// The nodes as cards, with the links between them. Cards are HTML over the SVG of the links, so that they can be read,
// focused and pressed.
import { useRef } from "preact/hooks";
import { bytes, layers, rate, seconds } from "../lib/units.js";
import { useWidth } from "../lib/widgets.jsx";
import { orderedNodes, pairsOf, partsOf, placesOf } from "./facts.js";

const kCard = { width: 230, height: 126 };
const kArc = 46; // height of an arc over the cards between two that are not neighbours

export function Picture({ status, busy, selected, onSelect }) {
  const box = useRef(null);
  const width = useWidth(box);
  const nodes = orderedNodes(status);
  const narrow = width < 2 * kCard.width + 96;
  const card = narrow ? { ...kCard, width: Math.min(340, width) } : kCard;
  const gap = narrow ? { x: 0, y: 44 } : { x: 112, y: 78 };
  const { columns, places, height } = placesOf(nodes.length, width, card, gap);
  const at = new Map(nodes.map((node, i) => [node.name, places[i]]));
  const lines = pairsOf(status).filter((p) => at.has(p.a) && at.has(p.b)).map((p) => lineOf(p, at.get(p.a), at.get(p.b), card, columns)).filter(Boolean);
  const top = lines.some((l) => l.arc && l.row === 0) ? kArc + 14 : 0;
  return (
    <div class="picture" ref={box} style={{ height: `${height + top}px` }}>
      <svg width={width} height={height + top} aria-hidden="true">
        <g transform={`translate(0 ${top})`}>
          {lines.map((l) => <path key={l.key} d={l.d} class={`link ${l.pair.chain ? "chain" : ""} ${l.pair.broken ? "broken" : ""}`} />)}
          {lines.map((l) => l.words && (
            <g key={l.key} class={`label ${l.pair.chain ? "chain" : ""}`}>
              <text x={l.x} y={l.y - 3} text-anchor="middle">{l.words[0]}</text>
              <text x={l.x} y={l.y + 11} text-anchor="middle">{l.words[1]}</text>
            </g>
          ))}
        </g>
      </svg>
      {nodes.map((node, i) => (
        <NodeCard key={node.key} node={node} index={i} parts={partsOf(status, node, layers)} busy={busy.get(node.key) ?? 0} selected={selected === node.key} onSelect={() => onSelect(node.key)}
          style={{ left: `${places[i].x}px`, top: `${places[i].y + top}px`, width: `${card.width}px`, height: `${card.height}px` }} />
      ))}
    </div>
  );
}

function lineOf(pair, a, b, card, columns) {
  const key = `${pair.a} ${pair.b}`;
  const words = pair.broken ? ["no link", ""] : pair.rtt_s === undefined ? null : [seconds(pair.rtt_s), `${bytes(pair.bytes_per_s)}/s`];
  const middle = (p) => ({ x: p.x + card.width / 2, y: p.y + card.height / 2 });
  const from = middle(a), to = middle(b);
  if (a.row === b.row) {
    const [left, right] = a.x < b.x ? [a, b] : [b, a];
    const apart = Math.abs(a.column - b.column);
    if (apart === 1) {
      const y = from.y, x1 = left.x + card.width, x2 = right.x;
      return { key, pair, d: `M${x1} ${y}H${x2}`, x: (x1 + x2) / 2, y: y - 12, words };
    }
    const x1 = left.x + card.width * 0.75, x2 = right.x + card.width * 0.25, y = left.y;
    return { key, pair, arc: true, row: a.row, d: `M${x1} ${y}C${x1} ${y - kArc},${x2} ${y - kArc},${x2} ${y}`, x: (x1 + x2) / 2, y: y - kArc + 26, words };
  }
  if (columns === 1 && Math.abs(a.row - b.row) > 1) return null; // the table below has it
  const beside = a.column === b.column && Math.abs(a.row - b.row) === 1;
  const x = (from.x + to.x) / 2, y = (from.y + to.y) / 2;
  return { key, pair, d: `M${from.x} ${from.y}L${to.x} ${to.y}`, x: beside ? x + 44 : x, y: beside ? y : y + 4, words: beside || pair.chain || pair.broken ? words : null };
}

function NodeCard({ node, index, parts, busy, selected, onSelect, style }) {
  const held = node.ram_bytes - node.ram_free_bytes;
  const own = parts.reduce((sum, p) => sum + (p.bytes ?? 0), 0);
  const share = node.ram_bytes > 0 ? Math.min(1, held / node.ram_bytes) : 0;
  const loading = parts.find((p) => p.load && p.load.done_bytes < p.load.total_bytes);
  return (
    <button type="button" class={`node ${node.state} c${index % 8} ${selected ? "selected" : ""}`} style={style} aria-pressed={selected} onClick={onSelect} data-node={node.name}>
      <span class="name"><b>{node.name}</b><span class={`state ${node.state}`}>{node.state}</span></span>
      <span class="part">{parts.length === 0 ? node.role || "no part" : parts.length === 1 ? parts[0].text : `${parts.length} jobs: ${parts.map((p) => p.text).join("; ")}`}</span>
      <span class="dim">{loading ? `loading ${Math.round((100 * loading.load.done_bytes) / loading.load.total_bytes)} %` : `${own ? bytes(own) + " · " : ""}${node.rows_per_s > 0.05 ? rate(node.rows_per_s) + " rows/s" : node.phase || ""}`}</span>
      <Meter label="memory" share={share} words={`${bytes(held).replace(/ .*/, "")} of ${bytes(node.ram_bytes)}`} />
      <Meter label="busy" share={busy} words={`${Math.round(100 * busy)} %`} />
    </button>
  );
}

function Meter({ label, share, words }) {
  return <span class="meter"><span>{label}</span><span class="track"><span class="fill" style={{ width: `${Math.round(100 * share)}%` }} /></span><span>{words}</span></span>;
}
