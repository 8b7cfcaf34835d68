#!/usr/bin/env bash
# Fuzzes the parsers of foreign bytes by coverage: fuzz.sh [SECONDS [TARGET…]]; default: 60 s for each target
# (fuzz/README.md lists them). Needs a nightly toolchain and cargo-fuzz; installs neither. The first build takes a
# quarter of an hour on two cores, the target `discovery` the same again.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
seconds=${1:-60}
[[ $seconds =~ ^[0-9]+$ ]] || fail "the first argument is a number of seconds, not '$seconds'"
shift || true
cargo +nightly --version >/dev/null 2>&1 ||
    fail "a nightly toolchain is missing (rustup toolchain install nightly --profile minimal)"
cargo fuzz --version >/dev/null 2>&1 || fail "cargo-fuzz is missing (cargo install --locked cargo-fuzz)"
# SQLite, which is linked but not run by most, defines a table twice in its one file.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_odr_violation=0}
targets=("$@")
[ $# -gt 0 ] || read -ra targets <<<"$(cargo +nightly fuzz list | tr '\n' ' ')"

# The fuzzer begins with the tests' seeds.
export LIVEBAG_FUZZ_SEEDS=$ROOT/fuzz/corpus
crates=(-p livebag-bags -p livebag-net -p livebag-shm)
[[ " ${targets[*]} " != *" discovery "* ]] || crates+=(-p livebag-ros2 --features livebag-ros2/dds,livebag-ros2/zenoh)
say "seeds for $LIVEBAG_FUZZ_SEEDS"
cargo test --quiet "${crates[@]}" --lib fuzzing -- --include-ignored >/dev/null

# Files are spoilt in memory.
TMPDIR=$(mktemp -d /dev/shm/livebag-fuzz.XXXXXX)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
for target in "${targets[@]}"; do
    say "$target: $seconds s"
    features=()
    [ "$target" != discovery ] || features=(--features ros2)
    # Memory is bounded: an input of some kilobytes that makes livebag take this much is a finding.
    cargo +nightly fuzz run "${features[@]}" "$target" -- -max_total_time="$seconds" -rss_limit_mb=2048 \
        -malloc_limit_mb=512 -timeout=20 -max_len=16384 -print_final_stats=1
done
