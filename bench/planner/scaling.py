#!/usr/bin/env python3
"""How far more machines help: 1 to 100 equal nodes, four models, two networks; planned, played by the simulator, and drawn.

    scaling.py [--butterfly BIN] [--nodes 1,2,4,..] [--svg FILE.svg] [--out FILE.json] [--show FILE.json]

For every model, network and number of nodes `butterfly plan` searches chains and groups (`--groups off`, `auto` and `8`) for one stream and for
many (four a node), the best of each is played by `butterfly simulate`, and its tokens/s are kept. A node is an ordinary desktop: see NODE.
Efficiency: tokens/s / (nodes x tokens/s of one node with the whole model in memory; where it does not fit, of one with more memory).
Nothing here is measured: rates and links are as stated. How far predictions lie from real runs: docs/distributed-generation.md.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

NODE = {"threads": 8, "memory_gb_s": 50, "int8_gops": 1000, "ram": '"60 GiB"'}
NETS = {"1 Gbit/s": (0.10, 1000), "10 Gbit/s": (0.03, 10000)}  # milliseconds of one way through a switch, Mbit/s
MODELS = {"llama-8b": "8B", "qwen3-30b-a3b": "30B, 3B active", "llama-70b": "70B", "gpt3-175b": "175B"}
COUNTS = [1, 2, 4, 8, 16, 32, 100]
CONTEXT, STREAMS_A_NODE = 2048, 4
KINDS = {"latency": "one stream", "throughput": "four streams a node"}
COLORS = ["#2563eb", "#d97706", "#059669", "#dc2626"]


def cluster_text(count, net, ram=None):
    latency, mbit = NETS[net]
    node = {**NODE, **({"ram": ram} if ram else {})}
    lines = [f"[net.lan]\nlatency_ms = {latency}\nbandwidth_mbit = {mbit}\n[[node]]\nname = \"n\"\nnet = \"lan\"\ncount = {count}"]
    return "\n".join(lines + [f"{key} = {value}" for key, value in node.items()]) + "\n"


def planned(options, folder, model, text, kind, groups, streams):
    """The plan as JSON; None where the model does not fit."""
    file = Path(folder) / "cluster.toml"
    file.write_text(text)
    command = [options.butterfly, "plan", model, "--cluster", file, "--context", CONTEXT, "--objective", kind, "--streams", streams, "--groups", groups, "--json"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        if "room" in done.stderr + done.stdout or "memory" in done.stderr + done.stdout or "fit" in done.stderr + done.stdout:
            return None
        sys.exit(f"{model}: {done.stderr}{done.stdout}")
    plan = json.loads(done.stdout)
    return plan if plan["plans"] and "stages" in plan["plans"][0] else None


def played(options, folder, plan, streams):
    """Tokens/s of the simulator, once caches are warm: of the time between tokens, not of prompts."""
    file, work = Path(folder) / "plan.json", Path(folder) / "work.toml"
    file.write_text(json.dumps(plan))
    work.write_text(f"clients = {streams}\nrequests = {streams}\nprompt = 1\ngenerate = 64\nbatch = {plan['batch']}\n")
    done = subprocess.run([options.butterfly, "simulate", str(file), str(work), "--json"], capture_output=True, text=True, check=True)
    return streams / json.loads(done.stdout)["token_s"]["p50"]


def words_of(plan):
    """"4 x 2 nodes": stages of the same number of nodes together."""
    sizes = [len(stage["nodes"]) for stage in plan["plans"][0]["stages"]]
    used = sum(sizes)
    if len(sizes) == 1:
        return "not split" if used == 1 else f"{used} share every layer"
    shared = sorted({size for size in sizes if size > 1})
    return f"chain of {len(sizes)}" + (f", groups of {' and '.join(map(str, shared))}" if shared else "") + f" ({used} nodes)"


def best(options, folder, model, text, kind, count):
    streams = 1 if kind == "latency" else STREAMS_A_NODE * count
    found = None
    for groups in ("off", "auto", "8") if count >= 8 else ("off", "auto") if count > 1 else ("off",):
        plan = planned(options, folder, model, text, kind, groups, streams)
        if plan and (found is None or plan["plans"][0]["objective_s"] < found["plans"][0]["objective_s"]):
            found = plan
    if found is None:
        return None
    plan = found["plans"][0]
    return {"predicted": plan["tokens_per_s"], "played": played(options, folder, found, streams), "words": words_of(found),
            "nodes_used": sum(len(stage["nodes"]) for stage in plan["stages"]), "batch": found["batch"], "streams": streams}


def study(options):
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for model in MODELS:
            for net in NETS:
                for kind in KINDS:
                    alone = best(options, folder, model, cluster_text(1, net, '"400 GiB"'), kind, 1)
                    for count in options.nodes:
                        row = best(options, folder, model, cluster_text(count, net), kind, count)
                        if row:
                            row["efficiency"] = row["played"] / (count * alone["played"])
                            rows.append({"model": model, "net": net, "kind": kind, "nodes": count, **row})
                    print(f"{model}, {net}, {KINDS[kind]}", file=sys.stderr)
    return rows


def show(rows):
    for kind, words in KINDS.items():
        print(f"\n{words[0].upper()}{words[1:]}: tokens/s (efficiency)\n")
        counts = sorted({row["nodes"] for row in rows})
        print("| model | network | " + " | ".join(f"{n}" for n in counts) + f" | best plan on {counts[-1]} |\n|" + "---|" * (len(counts) + 3))
        for model, name in MODELS.items():
            for net in NETS:
                here = {row["nodes"]: row for row in rows if (row["model"], row["net"], row["kind"]) == (model, net, kind)}
                cells = [f"{here[n]['played']:.3g} ({100 * here[n]['efficiency']:.0f} %)" if n in here else "does not fit" for n in counts]
                print(f"| {name} | {net} | " + " | ".join(cells) + f" | {here[counts[-1]]['words'] if counts[-1] in here else ''} |")
    apart = [abs(row["predicted"] / row["played"] - 1) for row in rows]
    if apart:
        print(f"\nplayed against predicted: {100 * sum(apart) / len(apart):.1f} % apart on average, {100 * max(apart):.1f} % at most")


def panel(rows, kind, x0, width, height):
    """Tokens/s over nodes, both logarithmic; whole lines: 10 Gbit/s, dashed: 1 Gbit/s."""
    from math import ceil, floor, log10
    mine = [row for row in rows if row["kind"] == kind]
    low, high = floor(log10(min(r["played"] for r in mine))), ceil(log10(max(r["played"] for r in mine)))
    left, top = x0 + 50, 40
    x = lambda n: left + width * log10(n) / 2  # noqa: E731
    y = lambda t: top + height * (high - log10(t)) / (high - low)  # noqa: E731
    out = [f'<text x="{left + width / 2}" y="20" text-anchor="middle" font-weight="bold">{KINDS[kind]}</text>']
    for n in COUNTS:
        out.append(f'<line x1="{x(n):.1f}" y1="{top}" x2="{x(n):.1f}" y2="{top + height}" stroke="#e5e7eb"/>'
                   f'<text x="{x(n):.1f}" y="{top + height + 16}" text-anchor="middle">{n}</text>')
    for power in range(low, high + 1):
        out.append(f'<line x1="{left}" y1="{y(10 ** power):.1f}" x2="{left + width}" y2="{y(10 ** power):.1f}" stroke="#e5e7eb"/>'
                   f'<text x="{left - 6}" y="{y(10 ** power) + 4:.1f}" text-anchor="end">{10 ** power:g}</text>')
    out.append(f'<text x="{left + width / 2}" y="{top + height + 34}" text-anchor="middle">nodes</text>'
               f'<text x="{x0 + 10}" y="{top + height / 2}" text-anchor="middle" transform="rotate(-90 {x0 + 10} {top + height / 2})">tokens/s</text>')
    for color, model in zip(COLORS, MODELS):
        for net in NETS:
            line = sorted((r["nodes"], r["played"]) for r in mine if r["model"] == model and r["net"] == net)
            dash = ' stroke-dasharray="5 4"' if net.startswith("1 ") else ""
            points = " ".join(f"{x(n):.1f},{y(t):.1f}" for n, t in line)
            out.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"{dash}/>')
            out += [f'<circle cx="{x(n):.1f}" cy="{y(t):.1f}" r="2.5" fill="{color}"/>' for n, t in line]
    return out


def picture(rows):
    width, height = 340, 300
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * width + 150} {height + 130}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>']
    for i, kind in enumerate(KINDS):
        out += panel(rows, kind, i * (width + 70), width, height)
    for i, (color, name) in enumerate(zip(COLORS, MODELS.values())):
        out.append(f'<line x1="{60 + i * 150}" y1="{height + 95}" x2="{85 + i * 150}" y2="{height + 95}" stroke="{color}" stroke-width="2"/>'
                   f'<text x="{91 + i * 150}" y="{height + 99}">{name}</text>')
    out.append(f'<text x="60" y="{height + 118}">whole lines: 10 Gbit/s, dashed: 1 Gbit/s; a node reads {NODE["memory_gb_s"]} GB/s; Q4_0; simulated</text></svg>')
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--butterfly", default="build/release/bin/butterfly")
    parser.add_argument("--nodes", default=",".join(map(str, COUNTS)), type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", type=Path, help="a file of --out instead of a study")
    options = parser.parse_args()
    rows = json.loads(options.show.read_text()) if options.show else study(options)
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1))
    show(rows)
    if options.svg:
        options.svg.write_text(picture(rows))


if __name__ == "__main__":
    main()
