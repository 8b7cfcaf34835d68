#!/usr/bin/env python3
"""Writes README.md's benchmark tables from the raw results of one run.

    scripts/bench-table.py [--check] [FOLDER]

FOLDER holds JSON files of `livebag-bench record` and `livebag-bench cycle`, all of one build. Without it the
folder that README.md names is taken. Every figure is a median with the worst run beside it. --check changes
nothing and fails if README.md is not what this script would write.
"""

import json
import re
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
REGION = re.compile(r"(<!-- bench-table (\S+) -->\n).*?(<!-- /bench-table -->)", re.S)

LOADS = {
    ("fullhd8", "paced"): "8 FullHD cameras, 30 Hz (1.49 GB/s)",
    ("fullhd8", "unpaced"): "the same frames as fast as they go",
    ("automotive", "paced"): "rosbag2's automotive mix, paced",
    ("small", "paced"): "500 topics × 100 B × 200 Hz, paced",
    ("small", "unpaced"): "1,000,000 messages of 100 B as fast as they go",
}
SYSTEMS = {
    "livebag": "livebag",
    "mcap-fastwrite": "`mcap` crate, unchunked",
    "mcap-chunked": "`mcap` crate, chunked",
    "floor": "direct writes alone (floor)",
}
CYCLERS = {
    ("livebag", "cycle-aware"): "livebag `cycle-aware`",
    ("livebag", "immediate"): "livebag `immediate`",
    ("mcap-chunked", "immediate"): "`mcap` crate, chunked",
    ("none", "none"): "no recorder",
}


def read(folder):
    reports = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    if not reports:
        sys.exit(f"bench-table: {folder} holds no results")
    commits = {report["machine"].get("built_from") for report in reports}
    if len(commits) > 1:
        sys.exit(f"bench-table: {folder} holds results of several builds: {sorted(map(str, commits))}")
    commit = commits.pop()
    if commit is not None and (commit == "unknown" or commit.endswith("-dirty")):
        sys.exit(f"bench-table: the results in {folder} are of no known code ({commit})")
    return reports, commit


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def median_and_worst(values, worst):
    middle, edge = statistics.median(values), worst(values)
    return number(middle) if middle == edge else f"{number(middle)} ({number(edge)})"


def recorded_cell(runs):
    if not runs:
        return ""
    column = lambda name: [run[name] for run in runs]
    rate = "gb_per_s" if runs[0]["mode"] == "unpaced" else "recorded_pct"
    unit = "GB/s" if rate == "gb_per_s" else "%"
    lost = max(column("lost"))
    words = [
        f"{median_and_worst(column(rate), min)} {unit}",
        f"{median_and_worst(column('cpu_s_per_gb'), max)} CPU s/GB",
    ]
    if lost:
        words.append(f"lost at most {lost:,}")
    return "; ".join(words) + f"; n={len(runs)}"


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "| " + " | ".join("---" for _ in heads) + " |"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def recording(reports):
    runs = [run for report in reports if report["bench"] == "record" for run in report["runs"]]
    of = lambda load, system: [r for r in runs if (r["workload"], r["mode"]) == load and r["system"] == system]
    rows = [
        [text] + [recorded_cell(of(load, system)) for system in SYSTEMS]
        for load, text in LOADS.items()
        if of(load, "livebag")
    ]
    return table(["recording"] + list(SYSTEMS.values()), rows) if rows else ""


def cycles(reports):
    runs = [run for report in reports if report["bench"] == "cycle" for run in report["runs"]]
    # What producers reached differs a little from what they were told.
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


def region(name):
    reports, commit = read(ROOT / name)
    machine = reports[0]["machine"]
    built = f"built from `{commit}`" if commit else "of binaries that did not know their commit yet"
    dates = sorted({report["date"] for report in reports})
    caption = (
        f"Median (worst of n runs), {' and '.join(dates)}, {built}; {machine['cores']} cores ({machine['cpu']}), "
        f"Linux {machine['kernel'].split('-')[0]}, {machine['filesystem']}; raw results in `{name}/`.\n"
    )
    return "\n".join(part for part in (caption, recording(reports), cycles(reports)) if part)


def main():
    arguments = sys.argv[1:]
    check = "--check" in arguments
    folders = [argument for argument in arguments if argument != "--check"]
    text = README.read_text()
    found = REGION.search(text)
    if len(folders) > 1 or any(folder.startswith("-") for folder in folders):
        sys.exit(__doc__)
    if not found:
        sys.exit("bench-table: README.md has no <!-- bench-table FOLDER --> … <!-- /bench-table -->")
    name = str(Path(folders[0]).resolve().relative_to(ROOT)) if folders else found[2]
    new = f"<!-- bench-table {name} -->\n{region(name)}{found[3]}"
    whole = text[: found.start()] + new + text[found.end() :]
    if check and whole != text:
        sys.exit("bench-table: README.md's tables are not those of its run: run scripts/bench-table.py")
    if not check:
        README.write_text(whole)


if __name__ == "__main__":
    main()
