#!/bin/sh
# Builds and runs the tests of the C++ header: plain, and under AddressSanitizer with
# UndefinedBehaviorSanitizer and under ThreadSanitizer. Called by `make test`.
#
# Needs g++ or clang++, cmake and libgtest-dev. With libopencv-core-dev the cv::Mat adapter is tested
# too, with libpcl-dev (or LIVEBAG_PCL_INCLUDE="dir;dir") that of PCL, with g++-aarch64-linux-gnu the
# header is compiled for aarch64. libpcl-dev drags in 250 MB; LIVEBAG_FETCH_PCL=1 unpacks only the headers
# of three Debian packages (12 MB) into the build folder. Build output goes to $CARGO_TARGET_DIR/cpp, or
# build/cpp.

set -eu

here=$(cd "$(dirname "$0")" && pwd)
case "${CARGO_TARGET_DIR:-}" in
"") build=$here/../build/cpp ;;
/*) build=$CARGO_TARGET_DIR/cpp ;;
*) build=$here/../$CARGO_TARGET_DIR/cpp ;;
esac
jobs=$(nproc)

missing=
for tool in c++ cmake; do
    command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"
done
[ -f /usr/include/gtest/gtest.h ] || [ -n "${GTest_ROOT:-}" ] || missing="$missing gtest"
if [ -n "$missing" ]; then
    echo "cpp/run-tests.sh: missing:$missing; install with: apt-get install g++ cmake libgtest-dev" >&2
    exit 1
fi

# PCL: Debian's headers lie in a folder with the version; Eigen is the one dependency with its own.
pcl=${LIVEBAG_PCL_INCLUDE:-}
if [ -z "$pcl" ]; then
    for folder in /usr/include/pcl-1.*; do
        if [ -d "$folder" ] && [ -d /usr/include/eigen3 ] && [ -d /usr/include/boost ]; then
            pcl="$folder;/usr/include/eigen3"
        fi
    done
fi
if [ -z "$pcl" ] && [ "${LIVEBAG_FETCH_PCL:-0}" = 1 ] && command -v apt-get >/dev/null 2>&1; then
    mkdir -p "$build/pcl"
    boost=$(apt-cache depends libboost-dev | awk '/Depends: libboost[0-9.]+-dev/ { print $2 }')
    # shellcheck disable=SC2086 # one package name
    (cd "$build/pcl" && apt-get download libpcl-dev libeigen3-dev $boost >/dev/null 2>&1 &&
        for package in *.deb; do dpkg -x "$package" root && rm "$package"; done) ||
        echo "cpp: the headers of PCL could not be fetched" >&2
fi
for folder in "$build"/pcl/root/usr/include/pcl-1.*; do
    if [ -z "$pcl" ] && [ -d "$folder" ]; then
        pcl="$folder;$build/pcl/root/usr/include/eigen3;$build/pcl/root/usr/include"
    fi
done
[ -n "$pcl" ] || echo "cpp: PCL is not installed; its adapter is not tested"
[ -d /usr/include/opencv4 ] || [ -d /usr/include/opencv2 ] || echo "cpp: OpenCV is not installed; its adapter is not tested"

# build_and_run NAME SANITIZERS [TEST_FILTER [BUILD_TYPE]]
build_and_run() {
    echo "== cpp: $1"
    cmake -S "$here" -B "$build/$1" -DCMAKE_BUILD_TYPE=${4:-Release} -DLIVEBAG_SANITIZE="$2" \
        -DLIVEBAG_PCL_INCLUDE="$pcl" -DLIVEBAG_LIBRARY="${LIVEBAG_LIBRARY:-}" >"$build/$1.log" 2>&1 || { cat "$build/$1.log" >&2; exit 1; }
    if [ -z "$2" ]; then targets=all; else targets="stream_tests${LIVEBAG_LIBRARY:+ recording_tests recording_c_test}"; fi
    # shellcheck disable=SC2086 # several targets
    cmake --build "$build/$1" --target $targets --parallel "$jobs" >"$build/$1.log" 2>&1 ||
        { cat "$build/$1.log" >&2; exit 1; }
    "$build/$1/stream_tests" --gtest_brief=1 --gtest_filter="${3:-*}"
    if [ -n "${LIVEBAG_LIBRARY:-}" ]; then
        # The library itself is not instrumented: ThreadSanitizer would not see how its threads wait for each other.
        echo "called_from_lib:liblivebag_c.so" >"$build/tsan"
        export TSAN_OPTIONS="suppressions=$build/tsan${TSAN_OPTIONS:+ $TSAN_OPTIONS}"
        "$build/$1/recording_tests" --gtest_brief=1
        rm -rf "$build/c-recording"
        "$build/$1/recording_c_test" "$build/c-recording"
    fi
}

mkdir -p "$build"
build_and_run plain ""
build_and_run address address,undefined '*' None
# Only what runs on memory of one process: ThreadSanitizer does not see that two mappings are the same.
build_and_run thread thread 'Slot.*:CopyAlong.*:Waiting.*' None

if command -v aarch64-linux-gnu-g++ >/dev/null 2>&1; then
    echo "== cpp: aarch64, compiled only"
    for source in tests/stream_tool.cpp examples/camera_driver.cpp examples/detector.cpp; do
        aarch64-linux-gnu-g++ -std=c++17 -Wall -Wextra -Werror -O2 -I"$here/include" \
            -DLIVEBAG_WITHOUT_OPENCV -c "$here/$source" -o "$build/aarch64.o"
    done
else
    echo "cpp: no aarch64-linux-gnu-g++; the header is not compiled for aarch64"
fi

# The last lines tell the whole: the plain run through ctest, and the two examples together.
echo "== cpp: examples"
"$build/plain/camera_driver" "example.$$" 40 >/dev/null &
driver=$!
"$build/plain/detector" "example.$$" 30
wait "$driver"
rm -f "/dev/shm/livebag.example.$$" "/dev/shm/livebag.example.$$.wake"
ctest --test-dir "$build/plain" --parallel "$jobs" 2>&1 | tail -n 4
