#!/usr/bin/env bash
# Builds the command for the demo, which needs only Rust and a C compiler, and runs the demo: demo.sh [OPTION…].
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cores=$(nproc)
say "livebag: the first build takes 3 to 4 minutes of processor time (about $(((4 + cores - 1) / cores + 1)) minutes on $cores \
cores), later ones seconds, the demo 15 seconds"
bash "$ROOT/scripts/setup.sh" rust
cd "$ROOT"
cargo build --locked --profile demo -p livebag-cli --no-default-features --features demo
exec "${CARGO_TARGET_DIR:-target}/demo/livebag" demo "$@"
