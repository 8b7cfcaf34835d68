#!/usr/bin/env bash
# Bricks and exports, read by the official Python reader, rosbags and @mcap/core; the benchmark's
# report, laid out by a browser; live containers read by their URL, and the server held to its
# description; ROS 2 over Zenoh and DDS with nodes of other implementations. `run.sh checkers` tests only the checkers.
set -euo pipefail
. "$(dirname "$0")/../../scripts/lib.sh"
choose_target_dir
bash "$ROOT/scripts/setup.sh" rust cyclone python node
cd "$ROOT"
tests=(tests/interop/test_checkers.py)

export LIVEBAG_FRAMES=$BUILD/interop/frames
if [ "${1:-}" != checkers ]; then
    say "building the command and the containers to check"
    # Within `make test` the packages are those it has built already (features unify over them).
    read -ra packages <<<"${LIVEBAG_PACKAGES:--p livebag-cli -p livebag-bags --all-features}"
    cargo build --locked "${packages[@]}" --bins --examples
    export LIVEBAG=$TARGET/debug/livebag
    rm -rf "$LIVEBAG_FRAMES"; mkdir -p "$LIVEBAG_FRAMES"
    "$TARGET/debug/examples/make_frames" "$LIVEBAG_FRAMES"
    bash "$ROOT/scripts/setup.sh" browser dds s3 lerobot
    export LIVEBAG_LEROBOT_PYTHON=$LEROBOT_VENV/bin/python
    [ ! -x "$BUILD/s3/versitygw" ] || export LIVEBAG_VERSITYGW=$BUILD/s3/versitygw
    LIVEBAG_BROWSER=$(find_browser) || say "no browser: the benchmark's report is not looked at"
    export LIVEBAG_BROWSER
    say "ROS 2 over Zenoh with nodes of other implementations"
    # hiroz takes minutes to build: only where it has been built, or with LIVEBAG_HIROZ=1.
    if [ -n "${LIVEBAG_HIROZ:-}" ]; then
        cargo build --locked --manifest-path tests/hiroz-peer/Cargo.toml --target-dir "$TARGET/hiroz-peer"
    fi
    peer=$TARGET/hiroz-peer/debug/hiroz-peer
    [ ! -x "$peer" ] || export LIVEBAG_HIROZ_PEER=$peer
    read -ra packages <<<"${LIVEBAG_PACKAGES:--p livebag-ros2 --features zenoh}"
    LIVEBAG_PYTHON=$VENV/bin/python cargo test --quiet --locked "${packages[@]}" --test zenoh_peers
    tests+=(tests/interop/test_livebag.py tests/interop/test_attachments.py tests/interop/test_rosbag2.py tests/interop/test_conformance.py tests/interop/test_online.py tests/interop/test_live.py tests/interop/test_report.py tests/interop/test_ros2.py tests/interop/test_push.py tests/interop/test_catalog.py tests/interop/test_lerobot.py)
fi
exec "$VENV/bin/python" -m pytest -q -rs -p no:cacheprovider --import-mode=importlib \
    -o pythonpath=tests/interop --rootdir "$ROOT" "${tests[@]}"
