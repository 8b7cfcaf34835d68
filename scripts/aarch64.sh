#!/usr/bin/env bash
# Checks that the whole workspace compiles for aarch64-unknown-linux-gnu. Exit code 77: could not
# be checked here, with the reason on the last line.
#
# The standard library for the target comes from rustup. Where rustup's server is out of reach, it
# is checked along from Debian's rust-src package of the same version (cargo -Zbuild-std).
set -euo pipefail
. "$(dirname "$0")/lib.sh"
choose_target_dir
cd "$ROOT"

triple=aarch64-unknown-linux-gnu
# C code inside dependencies and build scripts need no optimisation here.
check=(cargo check --locked --workspace --all-features --all-targets --target-dir "$TARGET/aarch64"
    --config 'profile.dev.package."*".opt-level=0')

has_target() { [ -d "$(rustc --print sysroot)/lib/rustlib/$triple/lib" ]; }

# Prints the addresses that this machine's apt uses and that may be a Debian mirror: those known to
# be one, or, before any package list was fetched, all.
debian_mirrors() {
    apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
        awk '/security/ { next } $1 == "Debian" { known[$2] } { all[$NF] }
            END { n = 0; for (u in known) { print u; n++ }; if (!n) for (u in all) print u }'
}

# Unpacks the library sources of this very rustc into $1, from whichever Debian suite has them.
fetch_library() {
    local into=$1 version mirror suite found
    version=$(rustc --version | cut -d' ' -f2)
    mkdir -p "$BUILD/apt" "$BUILD/archives"
    for mirror in $(debian_mirrors); do
        for suite in trixie-backports sid forky forky-backports; do
            printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' \
                "$mirror" "$suite" > "$BUILD/apt/$suite.list"
            export APT_NAME=$suite LIST=$BUILD/apt/$suite.list
            private_apt apt-get update >"$BUILD/apt.log" 2>&1 || continue
            found=$(private_apt apt-cache madison rust-src 2>/dev/null |
                awk -v v="$version" '$3 ~ "^" v "[+-]" { print $3; exit }')
            [ -n "$found" ] || continue
            say "unpacking the standard library's sources (Debian's rust-src $found, $suite) into build/rust-src"
            ( cd "$BUILD/archives" && private_apt apt-get download "rust-src=$found" >"$BUILD/apt.log" 2>&1 ) || continue
            rm -rf "$into"; mkdir -p "$into"
            dpkg-deb --fsys-tarfile "$BUILD"/archives/rust-src_*.deb |
                tar -x -C "$into" --strip-components=4 "./usr/src/rustc-$version/library" &&
                rm -f "$BUILD"/archives/rust-src_*.deb && [ -e "$into/library/std/Cargo.toml" ] && return 0
        done
    done
    return 1
}

# A sysroot that is the toolchain's plus the library sources, by symbolic links; nothing is added to
# the toolchain itself. $1: folder, $2: folder that holds library/.
make_sysroot() {
    local sysroot=$1 from
    from=$(rustc --print sysroot)
    rm -rf "$sysroot"
    mkdir -p "$sysroot/bin" "$sysroot/lib/rustlib/src/rust"
    local entry
    for entry in "$from"/lib/* "$from"/lib/rustlib/*; do
        case $entry in */rustlib|*/rustlib/src) ;; *) ln -s "$entry" "$sysroot/lib/${entry#"$from"/lib/}" ;; esac
    done
    ln -s "$2/library" "$sysroot/lib/rustlib/src/rust/library"
    printf '#!/bin/sh\nexec "%s/bin/rustc" --sysroot "%s" "$@"\n' "$from" "$sysroot" > "$sysroot/bin/rustc"
    chmod +x "$sysroot/bin/rustc"
}

if [ "$(uname -m)" = aarch64 ]; then
    note "this machine is aarch64: clippy and the tests have compiled the workspace for it"
    exit 0
fi
bash "$ROOT/scripts/setup.sh" cross
if ! has_target && command -v rustup >/dev/null; then
    say "adding the target $triple to the Rust toolchain (rustup target add)"
    timeout 300 rustup target add "$triple" >"$BUILD/rustup.log" 2>&1 ||
        note "rustup could not: $(grep -v '^info' "$BUILD/rustup.log" | head -n 1)"
fi
if has_target; then
    exec "${check[@]}" --target "$triple"
fi

version=$(rustc --version)
source=$BUILD/rust-src
if ! stamped rust-src "$version $ROOT" || [ ! -e "$source/library/std/Cargo.toml" ]; then
    fetch_library "$source" || {
        echo "no standard library for $triple: rustup's server is out of reach, and no Debian suite offers rust-src of $version"
        exit 77
    }
    stamp rust-src "$version $ROOT"
fi
make_sysroot "$BUILD/sysroot" "$source"
RUSTC=$BUILD/sysroot/bin/rustc RUSTC_BOOTSTRAP=1 "${check[@]}" -Zbuild-std --target "$triple"
