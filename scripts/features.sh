#!/usr/bin/env bash
# Checks the features that users can choose: the command without any names missing features, and each feature compiles
# separately.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
choose_target_dir
cd "$ROOT"
export RUSTFLAGS="${RUSTFLAGS:-} -D warnings"
# A separate target folder: the command for other steps has all features.
cargo() { command cargo "$@" --locked --target-dir "$TARGET/features"; }

cargo test --quiet -p livebag-cli --no-default-features --test absent
# With http, ros2-zenoh takes Zenoh as the feature zenoh has compiled it: two minutes less.
for feature in bucket demo http parquet sqlite3 bench zenoh http,ros2-zenoh ros2-dds; do
    note "$feature"
    cargo check --quiet -p livebag-cli --no-default-features --features "$feature"
done
note "the defaults, the Python package, and libraries without features"
cargo check --quiet -p livebag-cli
cargo check --quiet -p livebag-python
cargo check --quiet -p livebag-python --features bucket
cargo check --quiet -p livebag-net --no-default-features
note "who embeds the recorder compiles no SQLite, no bzip2 and no second MCAP library"
! command cargo tree --locked -p livebag -e normal --prefix none | grep -E '^(rusqlite|libsqlite3-sys|bzip2|mcap) '
