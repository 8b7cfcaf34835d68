#!/usr/bin/env python3
"""Writes the benchmark tables of README.md and docs/benchmarks.md from the raw results of one release.

    scripts/bench-table.py [--check] [FOLDER]
    scripts/bench-table.py --pack RESULTS… FOLDER

FOLDER holds raw.jsonl.xz; without it the folder that README.md names is taken. Every figure is a median with
the worst run in brackets. --check changes nothing and fails if the texts differ from this script's output.

--pack makes FOLDER (bench-runs/VERSION-HOST) from RESULTS, JSON files of `livebag-bench` or folders of them:
raw.jsonl.xz, a line for each file, and summary.md. Results of `record` and `cycle` must be of one build.
"""

import json
import lzma
import re
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RAW = "raw.jsonl.xz"
REGION = re.compile(r"(<!-- bench-table (\S+) -->\n).*?(<!-- /bench-table -->)", re.S)

LOADS = {
    ("fullhd8", "paced"): "8 FullHD cameras, 30 Hz (1.49 GB/s)",
    ("fullhd8", "unpaced"): "the same frames as fast as they go",
    ("automotive", "paced"): "rosbag2's automotive mix, paced",
    ("small", "paced"): "500 topics × 100 B × 200 Hz, paced",
    ("small", "unpaced"): "1,000,000 × 100 B as fast as they go",
}
SYSTEMS = {
    "livebag": "livebag",
    "mcap-fastwrite": "`mcap` crate, unchunked",
    "mcap-chunked": "`mcap` crate, chunked",
    "floor": "direct writes alone (floor)",
}
PEERS = ["mcap-fastwrite", "mcap-chunked"]
CYCLERS = {
    ("livebag", "cycle-aware"): "livebag `cycle-aware`",
    ("livebag", "immediate"): "livebag `immediate`",
    ("mcap-chunked", "immediate"): "`mcap` crate, chunked",
    ("none", "none"): "no recorder",
}
# Columns of summary.md for every other benchmark: the keys of rows, and the measured values.
SUMMARIES = {
    "stream": (["payload_bytes", "readers", "wait", "mode", "system"], ["p50_us", "p99_us", "torn"]),
    "query": (["topic", "range_s", "cache", "system"], ["open_ms", "total_ms"]),
    "submit": (["payload_bytes", "mode", "system"], ["total_us", "p50_us", "p99_us"]),
    "cameras": (["workload", "cameras", "system"], ["recorded_pct", "cpu_s_per_gb", "lost"]),
    "recover": (["gb", "crash"], ["messages", "recover_ms", "again_ms"]),
    "online": (["query", "topic", "clients", "link_mbit", "system"],
               ["server_ms", "client_ms", "newest_age_ms", "missing", "server_p50_ms", "mb_per_s", "used_pct"]),
}


def read(folder):
    path = folder / RAW
    if not path.exists():
        sys.exit(f"bench-table: {path} is missing: scripts/bench-table.py --pack RESULTS… {folder}")
    with lzma.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


def of(raw, bench):
    reports = [entry["report"] for entry in raw]
    return [report for report in reports if isinstance(report, dict) and report.get("bench") == bench]


def build_of(raw):
    reports = of(raw, "record") + of(raw, "cycle")
    commits = {report["machine"].get("built_from") for report in reports}
    if len(commits) > 1:
        sys.exit(f"bench-table: results of several builds: {sorted(map(str, commits))}")
    commit = commits.pop() if commits else None
    if commit is not None and (commit == "unknown" or commit.endswith("-dirty")):
        sys.exit(f"bench-table: the results are of no known code ({commit})")
    return commit


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def median_and_worst(values, worst):
    middle, edge = statistics.median(values), worst(values)
    return number(middle) if middle == edge else f"{number(middle)} ({number(edge)})"


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "| " + " | ".join("---" for _ in heads) + " |"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def recordings(raw):
    runs = [run for report in of(raw, "record") for run in report["runs"]]

    def select(load, system):
        return [run for run in runs if (run["workload"], run["mode"]) == load and run["system"] == system]

    return select


def rate_of(load):
    return ("gb_per_s", "GB/s") if load[1] == "unpaced" else ("recorded_pct", "%")


def recorded_cell(load, runs, is_short=False):
    if not runs:
        return ""
    column = lambda name: [run[name] for run in runs]
    rate, unit = rate_of(load)
    words = [
        f"{median_and_worst(column(rate), min)} {unit}",
        f"{median_and_worst(column('cpu_s_per_gb'), max)} CPU s/GB",
    ]
    lost = max(column("lost"))
    if lost and not is_short:
        words.append(f"lost at most {lost:,}")
    return "; ".join(words) + ("" if is_short else f"; n={len(runs)}")


def losses(load, select):
    """Where livebag is worse than a peer, or lost what direct writes did not."""
    middle = lambda runs, name: statistics.median([run[name] for run in runs])
    ours, floor = select(load, "livebag"), select(load, "floor")
    peers = [runs for runs in (select(load, peer) for peer in PEERS) if runs]
    words = []
    lossy = [run["lost"] for run in ours if run["lost"]]
    if lossy:
        beside = ", where direct writes lost none" if floor and not any(run["lost"] for run in floor) else ""
        words.append(f"{max(lossy):,} messages in {len(lossy)} of {len(ours)} runs{beside}")
    for name, unit, best in [(*rate_of(load), max), ("cpu_s_per_gb", "CPU s/GB", min)]:
        mine, theirs = middle(ours, name), best(middle(runs, name) for runs in peers)
        if mine != theirs and best(mine, theirs) == theirs:
            words.append(f"{number(mine)} against {number(theirs)} {unit}")
    return "; ".join(words) or "nothing"


def short(raw):
    """The table of README.md: a row for each load."""
    select = recordings(raw)
    rows = []
    for load, text in LOADS.items():
        if not select(load, "livebag"):
            continue
        rate = rate_of(load)[0]
        middle = lambda runs: (statistics.median([run[rate] for run in runs]), -runs[0]["cpu_s_per_gb"])
        peer = max((runs for runs in (select(load, peer) for peer in PEERS) if runs), key=middle)
        ours = select(load, "livebag")
        cells = [recorded_cell(load, runs, True) for runs in (ours, peer, select(load, "floor"))]
        rows.append([f"{text}; n={len(ours)}", *cells, losses(load, select)])
    return table(["recording", "livebag", "`mcap` crate, better mode", "direct writes alone", "livebag loses"], rows)


def recording(raw):
    select = recordings(raw)
    rows = [
        [text] + [recorded_cell(load, select(load, system)) for system in SYSTEMS]
        for load, text in LOADS.items()
        if select(load, "livebag")
    ]
    return table(["recording"] + list(SYSTEMS.values()), rows) if rows else ""


def cycles(raw):
    runs = [run for report in of(raw, "cycle") for run in report["runs"]]
    # The producers' actual rates differ a little from the requested ones.
    rates = sorted({round(run["published_gb_per_s"], 1) for run in runs})

    def cell(rate, system):
        ours = [r for r in runs if (r["system"], r["mode"]) == system and round(r["published_gb_per_s"], 1) == rate]
        if not ours:
            return ""
        deviation = median_and_worst([r["stddev_us"] for r in ours], max)
        lost = "" if system[0] == "none" else f"; {max(r['lost'] for r in ours):,}"
        return f"{deviation}{lost}; n={len(ours)}"

    rows = [[f"{rate} GB/s"] + [cell(rate, system) for system in CYCLERS] for rate in rates]
    head = "an application computes 10 ms every 33 ms beside: standard deviation of its end, µs; frames lost at most"
    return table([head] + list(CYCLERS.values()), rows) if rows else ""


def caption(raw, name):
    reports = of(raw, "record") + of(raw, "cycle")
    if not reports:
        return ""
    machine, commit = reports[0]["machine"], build_of(raw)
    built = f"built from `{commit}`" if commit else "of binaries that did not know their commit yet"
    dates = " and ".join(sorted({report["date"] for report in reports}))
    return (
        f"Median (worst of n runs), {dates}, {built}; {machine['cores']} cores ({machine['cpu']}),\n"
        f"Linux {machine['kernel'].split('-')[0]}, {machine['filesystem']}; raw results in `{name}/`.\n"
    )


def summaries(raw):
    for bench, (keys, values) in SUMMARIES.items():
        groups = {}
        for report in of(raw, bench):
            own = {}
            for run in report["runs"]:
                own.setdefault(tuple(run.get(key) for key in keys), []).append(run)
            groups.update(own)
        if not groups:
            continue
        used = [key for at, key in enumerate(keys) if any(group[at] is not None for group in groups)]
        measured = [value for value in values if any(value in run for runs in groups.values() for run in runs)]
        rows = []
        for group, runs in groups.items():
            told = dict(zip(keys, group))
            figures = [[run[value] for run in runs if run.get(value) is not None] for value in measured]
            cells = [number(statistics.median(found)) if found else "" for found in figures]
            rows.append(["" if told[key] is None else str(told[key]) for key in used] + [str(len(runs))] + cells)
        yield f"## {bench}\n\nMedians of the newest file that has the row.\n\n" + table(used + ["n"] + measured, rows)


def summary(raw, name):
    parts = [f"# {Path(name).name}\n", "Written by `scripts/bench-table.py --pack`. Do not edit.\n", caption(raw, name)]
    parts += ["## record\n", recording(raw), "## cycle\n", cycles(raw), *summaries(raw)]
    listed = []
    for entry in raw:
        report = entry["report"]
        bench, date, command = (report.get(key, "") for key in ("bench", "date", "command"))
        listed.append([entry["from"], bench, date or report.get("began", "")[:10], f"`{command}`"])
    parts += [f"## Raw results\n\n`{RAW}` has a line for each.\n", table(["from", "benchmark", "date", "command"], listed)]
    return "\n".join(part for part in parts if part)


def pack(arguments):
    *given, folder = map(Path, arguments)
    if not given:
        sys.exit(__doc__)
    files = [file for path in given for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
    raw = [{"from": str(file), "report": json.loads(file.read_text())} for file in files]
    raw.sort(key=lambda entry: entry["from"])
    build_of(raw)
    folder.mkdir(parents=True, exist_ok=True)
    with lzma.open(folder / RAW, "wt", preset=9) as lines:
        for entry in raw:
            lines.write(json.dumps(entry, separators=(",", ":"), ensure_ascii=False) + "\n")
    name = str(folder.resolve().relative_to(ROOT))
    (folder / "summary.md").write_text(summary(raw, name))


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--pack"]:
        return pack(arguments[1:])
    check = "--check" in arguments
    folders = [argument for argument in arguments if argument != "--check"]
    if len(folders) > 1 or any(folder.startswith("-") for folder in folders):
        sys.exit(__doc__)
    readme = ROOT / "README.md"
    found = REGION.search(readme.read_text())
    if not found:
        sys.exit("bench-table: README.md has no <!-- bench-table FOLDER --> … <!-- /bench-table -->")
    name = str(Path(folders[0]).resolve().relative_to(ROOT)) if folders else found[2]
    raw = read(ROOT / name)
    full = "\n".join(part for part in (caption(raw, name), recording(raw), cycles(raw)) if part)
    texts = {readme: "\n".join([caption(raw, name), short(raw)]), ROOT / "docs" / "benchmarks.md": full}
    wanted = {path: replaced(path, name, text) for path, text in texts.items()}
    wanted[ROOT / name / "summary.md"] = summary(raw, name)
    for path, text in wanted.items():
        if check and path.read_text() != text:
            sys.exit(f"bench-table: {path.relative_to(ROOT)} is not what its run says: run scripts/bench-table.py")
        if not check:
            path.write_text(text)


def replaced(path, name, new):
    text = path.read_text()
    found = REGION.search(text)
    if not found:
        sys.exit(f"bench-table: {path.name} has no <!-- bench-table FOLDER --> … <!-- /bench-table -->")
    return f"{text[: found.start()]}<!-- bench-table {name} -->\n{new}{found[3]}{text[found.end() :]}"


if __name__ == "__main__":
    main()
