#!/usr/bin/env bash
# Runs the tests of the C++ header with the PCL headers that setup.sh unpacked.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
bash "$ROOT/scripts/setup.sh" cpp
if [ -e "$DEBS/.pcl" ]; then
    pcl=("$DEBS"/usr/include/pcl-*)
    export LIVEBAG_PCL_INCLUDE="${pcl[0]};$DEBS/usr/include/eigen3;$DEBS/usr/include"
fi
# CMake's cache names its source folder, so its output stays in the clone.
unset CARGO_TARGET_DIR
exec sh "$ROOT/cpp/run-tests.sh"
