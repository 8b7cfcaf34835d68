#!/usr/bin/env bash
# Builds what a release consists of from the current commit: release.sh [OUT], by default dist/VERSION.
#   livebag-VERSION-ARCH-linux-musl.tar.gz   a static command, to be unpacked into any prefix
#   livebag_VERSION_ARCH.deb                 the same for Debian and Ubuntu
#   livebag-VERSION-cp39-abi3-….whl          the Python package
#   crates/                                  the crates as `cargo publish` would send them
#   SHA256SUMS, BUILT                        checksums; commit, sizes and times
# PROFILE=demo builds sooner. PARTS="command deb wheel crates" chooses. BINARY=FILE takes a built command.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
choose_target_dir
cd "$ROOT"
profile=${PROFILE:-dist} parts=${PARTS:-command deb wheel crates}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n1)
out=$(mkdir -p "${1:-dist/$version}" && cd "${1:-dist/$version}" && pwd)
machine=$(uname -m)
[ -z "$(git status --porcelain 2>/dev/null)" ] || note "the working tree has changes that the commit does not: not for publishing"
bash scripts/setup.sh rust
note_built() { printf '%-52s %9s  %5d s\n' "$1" "$(du -h --apparent-size "$2" | cut -f1)" "$3" | tee -a "$out/BUILT"; }
printf 'livebag %s, commit %s, profile %s\n' "$version" "$(git rev-parse HEAD 2>/dev/null || echo unknown)" "$profile" > "$out/BUILT"

static_command() {
    local target=$machine-unknown-linux-musl
    if ! rustup target list --installed 2>/dev/null | grep -qx "$target"; then
        say "installing Rust's libraries for $target"
        rustup target add "$target" || fail "the Rust target $target cannot be had; BINARY=FILE packs another command"
    fi
    command -v musl-gcc >/dev/null || install_debs "a C compiler for static programs" musl-tools
    local variable=CC_${target//-/_}
    export "$variable"=musl-gcc
    cargo build --locked --profile "$profile" --target "$target" -p livebag-cli --features demo
    BINARY=$TARGET/$target/$profile/livebag
}

pack() { # a folder of PREFIX's shape, made by install.sh
    local name=livebag-$version-$machine-linux-musl
    rm -rf "$work/$name"
    DESTDIR=$work/$name bash scripts/install.sh "$BINARY" /usr/local >/dev/null
    mv "$work/$name" "$work/root"; mv "$work/root/usr/local" "$work/$name"; rm -rf "$work/root"
    tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct 2>/dev/null || echo 0)" \
        -czf "$out/$name.tar.gz" "$name"
}

deb() {
    local root=$work/deb arch file
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
 header with a CMake package, and a systemd unit that is not enabled.
END
    file=$out/livebag_${version}_$arch.deb
    dpkg-deb --root-owner-group -Zxz --build "$root" "$file" >/dev/null
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case " $parts " in *" command "* | *" deb "*)
    began=$SECONDS
    [ -n "${BINARY:-}" ] || static_command
    note_built "the command" "$BINARY" $((SECONDS - began)) ;;
esac
case " $parts " in *" command "*) began=$SECONDS; pack; note_built "$(cd "$out" && ls -- *.tar.gz)" "$out"/*.tar.gz $((SECONDS - began)) ;; esac
case " $parts " in *" deb "*)
    if command -v dpkg-deb >/dev/null; then
        began=$SECONDS; deb; note_built "$(cd "$out" && ls -- *.deb)" "$out"/*.deb $((SECONDS - began))
    else note "no dpkg-deb here: no .deb"; fi ;;
esac
case " $parts " in *" wheel "*)
    bash scripts/setup.sh package
    began=$SECONDS
    ( cd python && CARGO_TARGET_DIR=$TARGET/python "$PACKAGE_VENV/bin/maturin" build --quiet --locked --profile "$profile" \
        --out "$out" )
    note_built "$(cd "$out" && ls -- *.whl)" "$out"/*.whl $((SECONDS - began)) ;;
esac
case " $parts " in *" crates "*)
    began=$SECONDS
    # Each against the others of this workspace, since none is in a registry yet.
    cargo package --locked --allow-dirty --no-verify --workspace --exclude livebag-python \
        --target-dir "$work/package" >"$work/package.log" 2>&1 || { cat "$work/package.log"; fail "cargo package failed"; }
    mkdir -p "$out/crates"; cp "$work"/package/package/*.crate "$out/crates/"
    note_built "crates/ ($(find "$out/crates" -name '*.crate' | wc -l))" "$out/crates" $((SECONDS - began)) ;;
esac
( cd "$out" && find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum > SHA256SUMS )
say "the release is in $out"
