#!/usr/bin/env bash
# Why are frames lost? Alternating runs of livebag and of the floor (direct writes), one process each:
#   scripts/bench-series.sh [RUNS [DIR [WORKLOAD [OPTION…]]]]       defaults: 30, the current folder, fullhd8
# After each pair a line, at the end median and worst of each. Raw results go to $OUT (default: a new folder
# below bench-runs, which git ignores). Build first: cargo build --locked --profile dist -p livebag-bench. PEERS=1 runs both mcap modes
# in between, as `make bench` does. Options go to livebag-bench: --seconds 5, --any-commit.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-30}; dir=${2:-.}; workload=${3:-fullhd8}; shift $(($# < 3 ? $# : 3))
bench=${BENCH:-${CARGO_TARGET_DIR:-target}/dist/livebag-bench}
out=${OUT:-bench-runs/$(date +%Y-%m-%d-%H%M%S)-series}
[ -x "$bench" ] || { echo "$bench is missing: cargo build --locked --profile dist -p livebag-bench" >&2; exit 1; }
mkdir -p "$out"
one() {
    "$bench" record --workload "$workload" --mode paced --seconds 5 --repeats 1 --dir "$dir" --out "$out" \
        --system "$1" --json "${@:2}" >/dev/null 2>>"$out/errors.txt" || echo "a run of $1 failed: $out/errors.txt"
}
for run in $(seq "$runs"); do
    # The second of two runs meets a disk that has just been busy: they take turns in going first.
    order=(livebag floor); [ $((run % 2)) = 0 ] || order=(floor livebag)
    [ -z "${PEERS:-}" ] || order=("${order[0]}" mcap-fastwrite mcap-chunked "${order[1]}")
    for system in "${order[@]}"; do one "$system" "$@"; done
    python3 - "$out" "$run" <<'PY'
import json, pathlib, statistics, sys
runs = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json"), key=lambda p: p.stat().st_mtime):
    for run in json.loads(path.read_text())["runs"]:
        runs.setdefault(run["system"], []).append(run)
line = lambda r: (f"{r['recorded_pct']:6.1f} %  {r['cpu_s_per_gb']:.3f} CPU s/GB  lost {r['lost']}"
                  f" (lapped {r['lapped']}, dropped {r['dropped']})")
print(f"run {sys.argv[2]}")
for system, all_runs in sorted(runs.items()):
    recorded = [r["recorded_pct"] for r in all_runs]
    lossy = sum(r["lost"] > 0 for r in all_runs)
    print(f"  {system:15} {line(all_runs[-1])}   so far: median {statistics.median(recorded):.1f} %,"
          f" worst {min(recorded):.1f} %, {lossy} of {len(all_runs)} with losses", flush=True)
PY
done
