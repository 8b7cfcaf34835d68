#!/usr/bin/env bash
# Runs the tests of the C++ header with the PCL headers that setup.sh unpacked, then those of the ROS package.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
bash "$ROOT/scripts/setup.sh" cpp
if [ -e "$DEBS/.pcl" ]; then
    pcl=("$DEBS"/usr/include/pcl-*)
    export LIVEBAG_PCL_INCLUDE="${pcl[0]};$DEBS/usr/include/eigen3;$DEBS/usr/include"
fi
if [ -e "$BUILD/ament/.complete" ]; then export LIVEBAG_AMENT_PREFIX=$BUILD/ament/usr; fi
# The recorder, if an earlier step has built it.
target=${CARGO_TARGET_DIR:-$ROOT/target}
if [ -x "$target/debug/livebag" ]; then export LIVEBAG_PROGRAM=$target/debug/livebag; fi
# The engine's library for C and C++.
say "building livebag's library for C"
read -ra packages <<<"${LIVEBAG_PACKAGES:--p livebag-c}"
(cd "$ROOT" && cargo build --locked --quiet "${packages[@]}" --lib)
export LIVEBAG_LIBRARY=$(readlink -f "$target/debug/liblivebag_c.so")
# CMake's cache names its source folder, so its output stays in the clone.
unset CARGO_TARGET_DIR
bash "$ROOT/scripts/snippets.sh"
sh "$ROOT/cpp/run-tests.sh"
sh "$ROOT/ros/run-tests.sh"
