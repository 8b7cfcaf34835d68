#!/bin/sh
# Checks the ament package livebag_ros as far as possible without ROS: the header, the adapters and the nodes' cores
# through the package's own CMake, driver and detector as two processes, the package's files; and, where there is an
# ament_cmake (Debian has one), that another package finds what this one exports. The nodes, which need rclcpp, are not
# compiled here. Called by scripts/cpp.sh after cpp/run-tests.sh, whose build folder and variables it shares.
# LIVEBAG_PROGRAM names a livebag that records what the driver publishes, LIVEBAG_AMENT_PREFIX the folder of Debian's
# ament_cmake, if it is not /usr.

set -eu

here=$(cd "$(dirname "$0")/livebag_ros" && pwd)
case "${CARGO_TARGET_DIR:-}" in
"") build=$here/../../build ;;
/*) build=$CARGO_TARGET_DIR ;;
*) build=$here/../../$CARGO_TARGET_DIR ;;
esac
tools=$build/cpp/plain
build=$build/ros
mkdir -p "$build"
jobs=$(nproc)
export PYTHONDONTWRITEBYTECODE=1

# run LOG COMMAND…: quiet unless it fails
run() {
    log=$build/$1.log
    shift
    "$@" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
}

# configure NAME OPTION…
configure() {
    name=$1
    shift
    run "$name" cmake -S "$here" -B "$build/$name" -DLIVEBAG_PCL_INCLUDE="${LIVEBAG_PCL_INCLUDE:-}" \
        -DLIVEBAG_TEST_OPTIONS=-Werror -DLIVEBAG_ROS_NODES=OFF "$@"
}

echo "== ros: without ament"
configure plain -DCMAKE_DISABLE_FIND_PACKAGE_ament_cmake=ON -DCMAKE_BUILD_TYPE=Release
run plain cmake --build "$build/plain" --parallel "$jobs"
if [ ! -x "$build/plain/without_ros" ]; then
    ctest --test-dir "$build/plain" 2>&1 | tail -n 3
    echo "ros: OpenCV is not installed; the nodes' cores are not tested"
    exit 0
fi

echo "== ros: the cores under AddressSanitizer and UndefinedBehaviorSanitizer"
configure address -DCMAKE_DISABLE_FIND_PACKAGE_ament_cmake=ON -DCMAKE_BUILD_TYPE=None \
    -DCMAKE_CXX_FLAGS="-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all"
run address cmake --build "$build/address" --parallel "$jobs" --target core_test
"$build/address/core_test" --gtest_brief=1

echo "== ros: driver and detector as two processes"
stream=ros_example.$$
recording=$build/recording.$$
driver=
recorder=
clean_up() {
    for process in $driver $recorder; do kill "$process" 2>/dev/null || true; done
    rm -rf "/dev/shm/livebag.$stream" "/dev/shm/livebag.$stream.wake" "$recording"
}
trap clean_up EXIT
"$build/plain/without_ros" drive "$stream" 100 &
driver=$!
if [ -n "${LIVEBAG_PROGRAM:-}" ]; then
    : >"$build/record.log"
    "$LIVEBAG_PROGRAM" record "$stream" --disable-keyboard-controls -o "$recording" >"$build/record.log" 2>&1 &
    recorder=$!
    until grep -q "recording /$stream" "$build/record.log"; do
        kill -0 "$recorder" 2>/dev/null || { cat "$build/record.log" >&2; exit 1; }
        sleep 0.1
    done
    "$build/plain/without_ros" detect "$stream" 50
    kill -INT "$recorder"
    wait "$recorder" || { cat "$build/record.log" >&2; exit 1; }
    recorder=
    "$LIVEBAG_PROGRAM" info "$recording" | grep -F "/$stream"
else
    echo "ros: LIVEBAG_PROGRAM names no livebag; what the driver publishes is not recorded"
    "$build/plain/without_ros" detect "$stream" 50
fi
kill -TERM "$driver"
wait "$driver"
driver=
# Another reader of the stream, after the driver's end in order.
if [ -x "$tools/stream_tool" ]; then
    "$tools/stream_tool" describe "$stream" | grep -o '"kind":"image".*"frame_id":"camera_front_optical"' >/dev/null
    echo "the C++ conformance tool reads the stream"
fi

ament=${LIVEBAG_AMENT_PREFIX:-/usr}
if [ -e "$ament/share/ament_cmake/cmake/ament_cmakeConfig.cmake" ]; then
    echo "== ros: another package finds what ament exports"
    # Debian's ament_cmake belongs to Debian's Python.
    export PYTHONPATH="$ament/lib/python3/dist-packages"
    configure ament -DCMAKE_PREFIX_PATH="$ament" -DPython3_EXECUTABLE=/usr/bin/python3 -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF \
        -DCMAKE_INSTALL_PREFIX="$build/install"
    rm -rf "$build/install"
    run ament cmake --build "$build/ament" --target install
    run consumer cmake -S "$here/test/consumer" -B "$build/consumer" -DCMAKE_PREFIX_PATH="$build/install;$ament" \
        -DPython3_EXECUTABLE=/usr/bin/python3 -DLIVEBAG_PCL_INCLUDE="${LIVEBAG_PCL_INCLUDE:-}" -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror"
    run consumer cmake --build "$build/consumer" --parallel "$jobs"
    found=
    for program in plain with_opencv with_pcl; do
        [ -x "$build/consumer/$program" ] || continue
        "$build/consumer/$program"
        found="$found $program"
    done
    echo "consumers that were built and ran:$found"
    unset PYTHONPATH
else
    echo "ros: ament_cmake is not installed; what the package exports is not tested"
fi

ctest --test-dir "$build/plain" --parallel "$jobs" 2>&1 | tail -n 4
