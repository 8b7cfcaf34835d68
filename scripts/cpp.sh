#!/usr/bin/env bash
# Runs the tests of the C++ header with the headers that setup.sh unpacked in sight.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
choose_target_dir
cd "$ROOT"
# As system headers: their warnings are not ours. Whichever exist are offered.
paths=()
for folder in /usr/include/opencv4 "$DEBS"/usr/include/pcl-* "$DEBS/usr/include/eigen3" "$DEBS/usr/include" \
    /usr/include/pcl-* /usr/include/eigen3; do
    [ ! -d "$folder" ] || paths+=("$folder")
done
export CPLUS_INCLUDE_PATH
CPLUS_INCLUDE_PATH=$(IFS=:; echo "${paths[*]:-}")${CPLUS_INCLUDE_PATH:+:$CPLUS_INCLUDE_PATH}
exec bash cpp/run-tests.sh
