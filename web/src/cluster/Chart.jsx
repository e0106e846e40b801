// A live chart. uPlot draws on a canvas, which nobody can read aloud: the newest values stand beside it as text.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { rate } from "../lib/units.js";
import { useWidth } from "../lib/widgets.jsx";
import { colourOf } from "./colours.js";

const kHeight = 150;
const clock = (s) => new Date(s * 1000).toLocaleTimeString([], { hour12: false });

// The last value; of steps the last that there is: not every step is validated.
function newest(values, steps) {
  const value = steps ? values.findLast((v) => v != null) : values.at(-1);
  return value == null ? "–" : steps && value < 10 ? value.toFixed(3) : rate(value);
}

// `times`: seconds since 1970, or steps where `steps` is set.
export function Chart({ title, unit, times, rows, steps = false }) {
  const box = useRef(null), plot = useRef(null);
  const width = useWidth(box);
  const names = rows.map((r) => r.name).join("\n");
  useEffect(() => {
    const style = getComputedStyle(document.documentElement);
    const grid = { stroke: style.getPropertyValue("--line"), width: 1 };
    const axis = { stroke: style.getPropertyValue("--dim"), grid, ticks: grid, font: "11px system-ui" };
    const made = new uPlot(
      {
        width: Math.max(120, width), height: kHeight, legend: { show: false }, cursor: { show: false },
        scales: { x: { time: !steps }, y: { range: (_, low, high) => [0, Math.max(steps ? 0 : 1, high ?? 1) * 1.1] } },
        axes: [{ ...axis, space: 80, values: (_, at) => (steps ? at.map(String) : at.map(clock)) }, { ...axis, size: 46 }],
        series: [{}, ...rows.map((row, i) => ({ label: row.name, stroke: colourOf(row.colour ?? i), width: 2, points: { show: false }, spanGaps: steps }))],
      },
      [times, ...rows.map((r) => r.values)], box.current);
    plot.current = made;
    return () => made.destroy();
  }, [names, width, document.documentElement.dataset.theme]);
  useEffect(() => plot.current?.setData([times, ...rows.map((r) => r.values)]));
  return (
    <figure class="chart">
      <figcaption>
        <strong>{title}</strong>
        {rows.map((row, i) => <span key={row.name}><i class={`dot c${(row.colour ?? i) % 8}`} />{row.name} <b>{newest(row.values, steps)}</b>{unit && ` ${unit}`}</span>)}
      </figcaption>
      <div ref={box} class="plot" aria-hidden="true" />
    </figure>
  );
}
