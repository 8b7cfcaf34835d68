#!/usr/bin/env bash
# Fuzzes what meets foreign bytes, by coverage: fuzz.sh [SECONDS [TARGET…]], 60 s for each of all
# targets unless told otherwise. Needs a nightly toolchain and cargo-fuzz; installs neither.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
seconds=${1:-60}
[[ $seconds =~ ^[0-9]+$ ]] || fail "the first argument is a number of seconds, not '$seconds'"
shift || true
cargo +nightly --version >/dev/null 2>&1 ||
    fail "a nightly toolchain is missing (rustup toolchain install nightly --profile minimal)"
cargo fuzz --version >/dev/null 2>&1 || fail "cargo-fuzz is missing (cargo install --locked cargo-fuzz)"
# SQLite, which is linked but not run, defines a table twice in its one file.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_odr_violation=0}
targets=("$@")
[ $# -gt 0 ] || read -ra targets <<<"$(cargo +nightly fuzz list | tr '\n' ' ')"
for target in "${targets[@]}"; do
    say "$target: $seconds s"
    # Memory is bounded: an answer to a hostile input that needs more than 2 GB is a finding.
    cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -rss_limit_mb=2048 \
        -malloc_limit_mb=1024 -timeout=20 -max_len=4096 -print_final_stats=1
done
