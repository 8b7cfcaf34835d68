#!/usr/bin/env bash
# Tries what users install, outside the repository, in clean folders: release-test.sh [DIST]
# Without DIST: `make install` and the .deb, made of the debug build (the step `install` of test.sh).
# With DIST (release.sh): its archive, .deb and wheel, too; the image of packaging/Containerfile if buildah is
# installed; and the files for aarch64, run by qemu.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
choose_target_dir
cd "$ROOT"
dist=${1:+$(cd "$1" && pwd)}
work=$(mktemp -d /var/tmp/livebag-install.XXXXXX)
trap 'rm -rf "$work"' EXIT
passed=0 skipped=0
ok() { passed=$((passed + 1)); printf '    ok: %s\n' "$1"; }
skip() { skipped=$((skipped + 1)); printf '    SKIPPED: %s\n' "$1"; }
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n1)

# The README's sixty seconds, with the command at $1.
sixty_seconds() {
    local livebag=$1 folder=$2
    mkdir -p "$folder"
    ( cd "$folder"
      [ "$("$livebag" --version)" = "livebag $version" ]
      "$livebag" demo -o demo --duration 3 --cameras 2 >demo.log 2>&1 ||
          [ $? = 3 ] || { cat demo.log; exit 1; }
      "$livebag" info demo >info.log
      "$livebag" play demo --loop </dev/null >play.log 2>&1 & playing=$!
      until "$livebag" streams 2>/dev/null | grep -q imu.data; do
          kill -0 $playing || { cat play.log; exit 1; }
          sleep 0.1
      done
      # Not --all: these streams are this test's.
      "$livebag" record imu.data camera_1.image -o run1 --serve 127.0.0.1:0 </dev/null >record.log 2>&1 & recording=$!
      until [ "$("$livebag" query run1 latest --last 1s --count 2>/dev/null || echo 0)" -gt 100 ]; do
          kill -0 $recording || { cat record.log; exit 1; }
          sleep 0.1
      done
      "$livebag" query run1 history --from +0s --to +1s -o part.mcap >/dev/null
      kill -INT $recording; wait $recording || [ $? = 3 ] || { cat record.log; exit 1; }
      kill -INT $playing; wait $playing || [ $? = 3 ] || { cat play.log; exit 1; }
      "$livebag" verify run1 part.mcap >/dev/null )
}

# A foreign program that uses the header.
cmake_project() {
    local prefix=$1 folder=$2
    mkdir -p "$folder"
    cat > "$folder/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.16)
project(node LANGUAGES CXX)
find_package(livebag 0.1 REQUIRED)
add_executable(node node.cpp)
target_link_libraries(node PRIVATE livebag::stream)
if(TARGET livebag::opencv)
  target_link_libraries(node PRIVATE livebag::opencv)
endif()
if(TARGET livebag::recording)
  add_executable(recorder recorder.cpp)
  target_link_libraries(recorder PRIVATE livebag::recording)
endif()
END
    cat > "$folder/recorder.cpp" <<'END'
#include <livebag/recording.hpp>
int main(int, char** values) {
    livebag::Recorder recorder(values[1]);
    recorder.topic({"/note", "", "json"}).write("{}", 2);
    if (recorder.finish().lost() > 0) return 1;
    const livebag::Recording recording(values[1]);
    return recording.topics().at(0).message_count == 1 ? 0 : 1;
}
END
    cat > "$folder/node.cpp" <<'END'
#include <livebag/stream.hpp>
int main() {
    auto writer = livebag::Writer::create("install-test", livebag::StreamOptions::image(64, 48, 3));
    auto loan = writer.loan();
    loan.publish({livebag::ImageLayout::of(64, 48, "bgr8"), "camera"});
}
END
    cmake -S "$folder" -B "$folder/build" -DCMAKE_PREFIX_PATH="$prefix" >"$folder/log" 2>&1 &&
        cmake --build "$folder/build" >>"$folder/log" 2>&1 || { cat "$folder/log"; return 1; }
}

binary=${BINARY:-$TARGET/debug/livebag}
if [ -z "${BINARY:-}" ] && [ -z "$dist" ]; then
    read -ra packages <<<"${LIVEBAG_PACKAGES:--p livebag-cli --features demo}"
    cargo build --quiet --locked "${packages[@]}" --bins
fi
machine=$(uname -m)
if [ -n "$dist" ]; then
    tar -C "$work" -xzf "$dist"/livebag-*-"$machine"-linux-musl.tar.gz
    binary=$(echo "$work"/livebag-*-linux-musl/bin/livebag)
    ! ldd "$binary" 2>&1 | grep -q '=>' || fail "the command in the archive is not static"
    ok "the archive's command is static"
    sixty_seconds "$binary" "$work/sixty"
    ok "the README's sixty seconds with the archive's command"
    mkdir "$work/unpacked"
    tar -C "$work/unpacked" -xzf "$dist"/livebag-*-"$machine"-linux-musl.tar.gz --strip-components=1
    ( cd "$work/unpacked" && xargs rm < share/livebag/installed )
    [ -z "$(find "$work/unpacked" -type f)" ] || { find "$work/unpacked" -type f; fail "the archive's list leaves files behind"; }
    ok "the archive's list removes every file of it"
    if [ "$(id -u)" = 0 ]; then
        # A root with nothing in it but the archive.
        root=$work/bare; mkdir -p "$root"/{proc,dev/shm,sys,tmp}; : > "$root/dev/null"
        cp -r "$work"/livebag-*-linux-musl "$root/livebag"
        if unshare --mount bash -c "mount -t proc proc $root/proc && mount -t tmpfs tmpfs $root/dev/shm && mount -t tmpfs tmpfs $root/tmp && mount --bind /dev/null $root/dev/null &&
            cd / && chroot $root /livebag/bin/livebag --version && { chroot $root /livebag/bin/livebag demo -o /tmp/d --duration 2 >$work/bare.log 2>&1 || [ \$? = 3 ]; } &&
            chroot $root /livebag/bin/livebag info /tmp/d" >"$work/bare.out" 2>&1; then ok "the demo in a root with nothing but the archive"
        else cat "$work/bare.out" "$work/bare.log"; fail "the archive's command in an empty root"; fi
    fi
fi

# An image, which is the archive and nothing else. (buildah runs it where podman may not set limits.)
if [ -n "$dist" ] && command -v buildah >/dev/null; then
    name=livebag-$version-$machine-linux-musl
    buildah=(buildah --root "$work/images" --runroot "$work/images-run" --storage-driver vfs)
    "${buildah[@]}" build --isolation chroot -q -f packaging/Containerfile --build-arg NAME="$name" -t livebag-test "$dist" >"$work/image.log" 2>&1 ||
        { cat "$work/image.log"; fail "buildah build"; }
    mkdir "$work/data"
    container=$("${buildah[@]}" from --pull-never localhost/livebag-test)
    "${buildah[@]}" run --isolation chroot -v "$work/data:/data" -v /dev/shm:/dev/shm "$container" -- livebag demo -o run --duration 2 >"$work/image.log" 2>&1 ||
        [ $? = 3 ] || { cat "$work/image.log"; fail "the demo in the image"; }
    "${buildah[@]}" rm "$container" >/dev/null
    "$binary" info "$work/data/run" >/dev/null
    ok "the image of packaging/Containerfile runs the demo"
elif [ -n "$dist" ]; then skip "packaging/Containerfile (no buildah)"; fi

# Files for the other machine.
if [ -n "$dist" ] && [ "$machine" != aarch64 ] && compgen -G "$dist/*-aarch64-linux-musl.tar.gz" >/dev/null; then
    if command -v qemu-aarch64-static >/dev/null; then
        mkdir "$work/aarch64"
        tar -C "$work/aarch64" -xzf "$dist"/livebag-*-aarch64-linux-musl.tar.gz
        foreign=(qemu-aarch64-static "$work"/aarch64/livebag-*/bin/livebag)
        [ "$("${foreign[@]}" --version)" = "livebag $version" ]
        ( cd "$work/sixty" && "${foreign[@]}" info demo ) >"$work/aarch64/info"
        cmp "$work/aarch64/info" "$work/sixty/info.log"
        "${foreign[@]}" convert "$work/sixty/part.mcap" "$work/aarch64/part" >/dev/null
        "$binary" verify "$work/aarch64/part" >/dev/null
        ok "the command for aarch64, run by qemu, reads and writes what this machine's does"
    else skip "what is for aarch64 (no qemu-aarch64-static)"; fi
elif [ -n "$dist" ] && [ "$machine" != aarch64 ]; then skip "what is for aarch64 (not in $dist)"; fi

# make install, upgrade, uninstall
prefix=$work/prefix
bash scripts/install.sh "$binary" "$prefix" >/dev/null
[ -x "$prefix/bin/livebag" ] && [ -e "$prefix/share/man/man1/livebag-record.1" ] && [ -e "$prefix/include/livebag/stream.hpp" ]
bash -n "$prefix/share/bash-completion/completions/livebag"
ok "installed below a prefix"
! command -v man >/dev/null || { MANWIDTH=80 man -l --warnings "$prefix/share/man/man1/livebag-record.1" 2>"$work/man.err" >/dev/null && [ ! -s "$work/man.err" ]; } ||
    { head "$work/man.err"; fail "the man page of record has warnings"; }
"$prefix/bin/livebag" record --profile "$prefix/share/livebag/record.yaml" --print-profile >/dev/null
ok "the unit's example profile is understood"
if command -v systemd-analyze >/dev/null; then
    for unit in livebag livebag-push; do
        systemd-analyze verify --man=no "$prefix/lib/systemd/system/$unit.service" 2>"$work/unit.log" || { cat "$work/unit.log"; fail "the unit $unit"; }
    done
    ok "systemd-analyze verify --man=no takes the units"
fi
if command -v cmake >/dev/null && command -v c++ >/dev/null; then
    cmake_project "$prefix" "$work/node"
    "$work/node/build/node"
    "$prefix/bin/livebag" streams remove install-test >/dev/null
    ok "find_package(livebag) builds a node that publishes"
    if [ -e "$prefix/lib/liblivebag_c.so" ]; then
        "$work/node/build/recorder" "$work/recorded"
        "$prefix/bin/livebag" verify "$work/recorded" >/dev/null
        ok "find_package(livebag) builds a program that records and asks"
    fi
fi
bash scripts/install.sh "$binary" "$prefix" >/dev/null
bash scripts/install.sh --uninstall "$prefix" >/dev/null
[ -z "$(find "$prefix" -mindepth 1)" ] || { find "$prefix"; fail "uninstalling left something behind"; }
ok "installed over itself, removed without a trace"

# The .deb, in a separate root.
if command -v dpkg-deb >/dev/null; then
    deb=$(compgen -G "${dist:-/nonexistent}/*_$(dpkg --print-architecture).deb" || true)
    if [ -z "$deb" ]; then
        BINARY=$binary PARTS=deb bash scripts/release.sh "$work/dist" >/dev/null
        deb=$(echo "$work"/dist/*.deb)
    fi
    root=$work/debian; mkdir -p "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/info"; : > "$root/var/lib/dpkg/status"
    dpkg_in() { dpkg --root="$root" --force-not-root --force-script-chrootless --log=/dev/null "$@"; }
    dpkg_in --install "$deb" >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log"; fail "dpkg --install"; }
    [ -x "$root/usr/bin/livebag" ] && [ -e "$root/etc/livebag/record.yaml" ] && "$root/usr/bin/livebag" --version >/dev/null
    ok "the .deb installs"
    dpkg_in --purge livebag >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log"; fail "dpkg --purge"; }
    left=$(find "$root" -path "$root/var/lib/dpkg" -prune -o -type f -print)
    [ -z "$left" ] || { echo "$left"; fail "the .deb left files behind"; }
    ok "the .deb is removed without a trace"
else
    skip "the .deb (no dpkg)"
fi

if [ -n "$dist" ] && compgen -G "$dist/*_$machine.whl" >/dev/null; then
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check "$dist"/*"_$machine.whl"
    ( cd "$work" && "$work/venv/bin/python" -c 'import livebag, sys; bag = livebag.open(sys.argv[1]); print(len(list(bag.topics)), "topics")' sixty/demo )
    ( cd "$work" && env -i HOME="$work" AWS_EC2_METADATA_DISABLED=true "$work/venv/bin/python" -c '
import livebag
try:
    livebag.open("s3://bucket/run")
except livebag.Error as error:
    assert "credentials" in str(error), error
else:
    raise SystemExit("opened without credentials")' )
    "$work/venv/bin/pip" uninstall --quiet --yes livebag
    ! "$work/venv/bin/python" -c 'import livebag' 2>/dev/null
    ok "the wheel reads the demo's recording, asks for a bucket's credentials, and goes"
elif [ -n "$dist" ]; then skip "the wheel (not in $dist)"; fi
if [ "$skipped" = 0 ]; then echo "install: $passed passed, 0 failed"
else echo "install: $passed passed, 0 failed, $skipped skipped"; fi
