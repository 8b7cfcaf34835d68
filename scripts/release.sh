#!/usr/bin/env bash
# Builds the files of a release from the current commit: release.sh [OUT], by default dist/VERSION.
#   livebag-VERSION-ARCH-linux-musl.tar.gz   a static command, to be unpacked into any prefix
#   livebag_VERSION_ARCH.deb                 the same for Debian and Ubuntu
#   livebag-VERSION-cp39-abi3-….whl          the Python package
#   crates/                                  the crates as `cargo publish` would send them
#   SHA256SUMS, BUILT-ARCH                   checksums; commit, sizes, time that passed and processor time
# PROFILE=demo builds sooner. PARTS="command deb wheel crates" chooses. BINARY=FILE takes a built command.
# ARCH=aarch64 makes those of that machine elsewhere: with Debian's cross compiler, and qemu-user-static, which
# runs the command for its man pages and completions.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
choose_target_dir
cd "$ROOT"
profile=${PROFILE:-dist} parts=${PARTS:-command deb wheel crates}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n1)
out=$(mkdir -p "${1:-dist/$version}" && cd "${1:-dist/$version}" && pwd)
machine=${ARCH:-$(uname -m)}
export RUNNER=
if [ "$machine" != "$(uname -m)" ]; then
    [ "$machine" = aarch64 ] || fail "ARCH knows aarch64 besides this machine's $(uname -m), not '$machine'"
    parts=${PARTS:-command deb wheel}   # crates are the same for all machines
fi
[ -z "$(git status --porcelain 2>/dev/null)" ] || note "the working tree has changes that the commit does not: not for publishing"
bash scripts/setup.sh rust
# Sets `cpu` to the processor time of what has run, in seconds. (In a subshell `times` tells of that one.)
look_at_times() {
    times > "$work/times"
    cpu=$(awk 'NR == 2 { for (n = 1; n <= 2; n++) { split($n, t, "m"); s += t[1] * 60 + t[2] }; printf "%.0f", s }' "$work/times")
}
begin() { began=$SECONDS; look_at_times; began_cpu=$cpu; }
# What was made since `begin`, its size, the time that passed, processor time.
note_built() {
    look_at_times
    printf '%-52s %9s  %5d s  %5d s CPU\n' "$1" "$(du -h --apparent-size "$2" | cut -f1)" $((SECONDS - began)) \
        $((cpu - began_cpu)) | tee -a "$out/BUILT-$machine"
}
printf 'livebag %s for %s, commit %s, profile %s\n' "$version" "$machine" "$(git rev-parse HEAD 2>/dev/null || echo unknown)" "$profile" > "$out/BUILT-$machine"

has_target() {
    rustup target list --installed 2>/dev/null | grep -qx "$1" && return 0
    say "installing Rust's libraries for $1"
    rustup target add "$1"
}

# Another machine's C compiler, and what runs its programs here.
cross_tools() {
    [ "$machine" != "$(uname -m)" ] || return 0
    bash scripts/setup.sh cross
    command -v qemu-aarch64-static >/dev/null || install_debs "an emulator of aarch64" qemu-user-static
    RUNNER=qemu-aarch64-static
}

# C code for musl needs musl's headers, not glibc's; Rust brings its library.
musl_headers() {
    local folder=$BUILD/musl-arm64 arm64=(-o APT::Architecture=arm64 -o APT::Architectures=arm64)
    if [ ! -e "$folder/usr/include/aarch64-linux-musl/stdio.h" ]; then
        say "unpacking musl's headers for aarch64 (Debian's musl-dev) into build/musl-arm64" >&2
        mkdir -p "$folder"
        ( export APT_NAME=arm64
          private_apt apt-get "${arm64[@]}" update >"$BUILD/apt.log" 2>&1
          cd "$folder" && private_apt apt-get "${arm64[@]}" download musl-dev >>"$BUILD/apt.log" 2>&1 &&
              dpkg-deb -x musl-dev_*_arm64.deb . ) || fail "Debian's musl-dev for arm64 cannot be had ($BUILD/apt.log)"
    fi
    echo "$folder/usr/include/aarch64-linux-musl"
}

static_command() {
    local target=$machine-unknown-linux-musl
    has_target "$target" || fail "the Rust target $target cannot be had; BINARY=FILE packs another command"
    if [ "$machine" = "$(uname -m)" ]; then
        command -v musl-gcc >/dev/null || install_debs "a C compiler for static programs" musl-tools
        export "CC_${target//-/_}=musl-gcc"
    else
        export CC_aarch64_unknown_linux_musl=aarch64-linux-gnu-gcc AR_aarch64_unknown_linux_musl=aarch64-linux-gnu-ar
        CFLAGS_aarch64_unknown_linux_musl="-nostdinc -isystem $(musl_headers) -isystem $(aarch64-linux-gnu-gcc -print-file-name=include) -U_FORTIFY_SOURCE"
        export CFLAGS_aarch64_unknown_linux_musl CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
    fi
    cargo build --locked --profile "$profile" --target "$target" -p livebag-cli --features demo,parquet,bucket
    BINARY=$TARGET/$target/$profile/livebag
}

# Shared, since Python loads it: for this machine's glibc or newer.
wheel() {
    local options=(--quiet --locked --profile "$profile" --features bucket --out "$out")
    if [ "$machine" != "$(uname -m)" ]; then
        has_target "$machine-unknown-linux-gnu" || fail "the Rust target $machine-unknown-linux-gnu cannot be had"
        options+=(--target "$machine-unknown-linux-gnu")
        export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    fi
    ( cd python && CARGO_TARGET_DIR=$TARGET/python "$PACKAGE_VENV/bin/maturin" build "${options[@]}" )
}

pack() { # a folder of PREFIX's shape, made by install.sh
    name=livebag-$version-$machine-linux-musl
    rm -rf "$work/$name"
    DESTDIR=$work/$name bash scripts/install.sh "$BINARY" /usr/local >/dev/null
    mv "$work/$name" "$work/root"; mv "$work/root/usr/local" "$work/$name"; rm -rf "$work/root"
    # It is unpacked into any prefix: (cd PREFIX && xargs rm < share/livebag/installed) removes it.
    sed -i 's|^/usr/local/||; $a share/livebag/installed' "$work/$name/share/livebag/installed"
    tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct 2>/dev/null || echo 0)" \
        -czf "$out/$name.tar.gz" "$name"
}

deb() {
    local root=$work/deb arch
    case $machine in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) arch=$machine ;; esac
    rm -rf "$root"
    DESTDIR=$root bash scripts/install.sh "$BINARY" /usr >/dev/null
    rm "$root/usr/share/livebag/installed"   # dpkg knows what it installed
    install -D -m 644 packaging/record.yaml "$root/etc/livebag/record.yaml"
    find "$root/usr/share/man" -name '*.1' -exec gzip -9n {} +
    mkdir -p "$root/DEBIAN"
    echo /etc/livebag/record.yaml > "$root/DEBIAN/conffiles"
    cat > "$root/DEBIAN/control" <<END
Package: livebag
Version: $version
Architecture: $arch
Maintainer: the livebag developers
Section: science
Priority: optional
Installed-Size: $(du -ks "$root/usr" | cut -f1)
Suggests: ffmpeg
Description: Record every sensor of a robot, and read any moment while it is written
 The command (static, without ROS 2 networks), man pages, completions, the C++
 header with a CMake package, and systemd units that are not enabled.
END
    file=$out/livebag_${version}_$arch.deb
    dpkg-deb --root-owner-group -Zxz --build "$root" "$file" >/dev/null
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cross_tools
case " $parts " in *" command "* | *" deb "*)
    begin
    [ -n "${BINARY:-}" ] || static_command
    note_built "the command" "$BINARY" ;;
esac
case " $parts " in *" command "*) begin; pack; note_built "$name.tar.gz" "$out/$name.tar.gz" ;; esac
case " $parts " in *" deb "*)
    if command -v dpkg-deb >/dev/null; then begin; deb; note_built "$(basename "$file")" "$file"
    else note "SKIPPED: the .deb (no dpkg-deb here)"; fi ;;
esac
case " $parts " in *" wheel "*)
    bash scripts/setup.sh package
    rm -f "$out"/livebag-*"_$machine.whl"
    begin
    wheel
    note_built "$(cd "$out" && ls -- *"_$machine.whl")" "$out"/*"_$machine.whl" ;;
esac
case " $parts " in *" crates "*)
    begin
    # Each against the others of this workspace, since none is in a registry yet.
    cargo package --locked --allow-dirty --no-verify --workspace --exclude livebag-python \
        --target-dir "$work/package" >"$work/package.log" 2>&1 || { cat "$work/package.log"; fail "cargo package failed"; }
    rm -rf "$out/crates"; mkdir -p "$out/crates"; cp "$work"/package/package/*.crate "$out/crates/"
    note_built "crates/ ($(find "$out/crates" -name '*.crate' | wc -l))" "$out/crates" ;;
esac
( cd "$out" && find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum > SHA256SUMS )
say "the release is in $out"
