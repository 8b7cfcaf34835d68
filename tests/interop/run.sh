#!/usr/bin/env bash
# Bricks and exports, read by the official Python reader, rosbags and @mcap/core. `run.sh checkers`
# tests the checkers alone.
set -euo pipefail
. "$(dirname "$0")/../../scripts/lib.sh"
choose_target_dir
bash "$ROOT/scripts/setup.sh" rust python node
cd "$ROOT"
tests=(tests/interop/test_checkers.py)

export LIVEBAG_FRAMES=$BUILD/interop/frames
if [ "${1:-}" != checkers ]; then
    say "building the command and the containers to check"
    # Within `make test` the packages are those it has built already (features unify over them).
    read -ra packages <<<"${LIVEBAG_PACKAGES:--p livebag-cli -p livebag}"
    cargo build --locked "${packages[@]}" --bins --examples
    export LIVEBAG=$TARGET/debug/livebag
    rm -rf "$LIVEBAG_FRAMES"; mkdir -p "$LIVEBAG_FRAMES"
    "$TARGET/debug/examples/make_frames" "$LIVEBAG_FRAMES"
    tests+=(tests/interop/test_livebag.py)
fi
exec "$VENV/bin/python" -m pytest -q -p no:cacheprovider --import-mode=importlib \
    -o pythonpath=tests/interop --rootdir "$ROOT" "${tests[@]}"
