#!/usr/bin/env bash
# Installs a built command with its files, or removes it again:
#   install.sh BINARY PREFIX      [DESTDIR=FOLDER]   the binary, man pages, completions, C++ headers, systemd units;
#                                                    the engine's library for C and C++, if it is beside the binary
#   install.sh --uninstall PREFIX [DESTDIR=FOLDER]
# RUNNER=qemu-… runs a binary of another machine.
# PREFIX/share/livebag/installed lists the installed files; installing again first removes these.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

remove() {
    local prefix=$1 root=${DESTDIR:-} list entry
    list=$root$prefix/share/livebag/installed
    [ -e "$list" ] || return 1
    while IFS= read -r entry; do
        case $entry in "$prefix"/*) rm -f "$root$entry" ;; esac
    done < "$list"
    rm -f "$list"
    # Folders, deepest first, that nothing else uses.
    for entry in share/livebag share/doc/livebag lib/systemd/system lib/systemd lib/cmake/livebag lib/cmake lib \
        include/livebag/stream include/livebag include share/bash-completion/completions share/bash-completion \
        share/zsh/site-functions share/zsh share/fish/vendor_completions.d share/fish share/man/man1 share/man \
        share/doc share bin; do
        rmdir "$root$prefix/$entry" 2>/dev/null || true
    done
}

if [ "${1:-}" = --uninstall ]; then
    prefix=${2:?usage: install.sh --uninstall PREFIX}
    remove "$prefix" || fail "nothing of livebag is installed below ${DESTDIR:-}$prefix (no share/livebag/installed there)"
    say "removed from ${DESTDIR:-}$prefix; recordings and /etc/livebag are untouched"
    exit
fi

binary=${1:?usage: install.sh BINARY PREFIX} prefix=${2:?usage: install.sh BINARY PREFIX}
case $prefix in /*) ;; *) fail "expected an absolute PREFIX, found '$prefix'" ;; esac
[ -x "$binary" ] || fail "there is no command at $binary; build it first: make build"
binary=$(realpath "$binary")
to=${DESTDIR:-}$prefix
mkdir -p "$to" 2>/dev/null && [ -w "$to" ] ||
    fail "$to cannot be written: choose another (make install PREFIX=\$HOME/.local), or run as root"
remove "$prefix" || true

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
run() { ${RUNNER:-} "$binary" "$@"; }
run man "$made/man"
mkdir -p "$made/completions"
for shell in bash zsh fish; do run completions $shell > "$made/completions/$shell"; done
for unit in livebag livebag-push; do
    sed "s|@PREFIX@|$prefix|" "$ROOT/packaging/$unit.service" > "$made/$unit.service"
done

installed=()
put() { # MODE FILE PLACE
    install -D -m "$1" "$2" "$to/$3"
    installed+=("$prefix/$3")
}
put 755 "$binary" bin/livebag
for page in "$made"/man/*.1; do put 644 "$page" "share/man/man1/$(basename "$page")"; done
put 644 "$made/completions/bash" share/bash-completion/completions/livebag
put 644 "$made/completions/zsh" share/zsh/site-functions/_livebag
put 644 "$made/completions/fish" share/fish/vendor_completions.d/livebag.fish
while IFS= read -r header; do
    put 644 "$ROOT/cpp/include/$header" "include/$header"
done < <(cd "$ROOT/cpp/include" && find livebag* -type f)
put 644 "$ROOT/cpp/cmake/livebag-config.cmake" lib/cmake/livebag/livebag-config.cmake
beside=$(dirname "$binary")
for library in liblivebag_c.so liblivebag_c.a; do
    [ ! -e "$beside/$library" ] || put 644 "$beside/$library" "lib/$library"
done
version=$(run --version | cut -d' ' -f2)
cat > "$made/version.cmake" <<END
set(PACKAGE_VERSION $version)
if(PACKAGE_FIND_VERSION VERSION_LESS_EQUAL PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
END
put 644 "$made/version.cmake" lib/cmake/livebag/livebag-config-version.cmake
put 644 "$made/livebag.service" lib/systemd/system/livebag.service
put 644 "$made/livebag-push.service" lib/systemd/system/livebag-push.service
put 644 "$ROOT/packaging/record.yaml" share/livebag/record.yaml
put 644 "$ROOT/LICENSE" share/doc/livebag/copyright
put 644 "$ROOT/CHANGELOG.md" share/doc/livebag/CHANGELOG.md
printf '%s\n' "${installed[@]}" > "$to/share/livebag/installed"
say "livebag $version is in $to ($(du -ch "${installed[@]/#/${DESTDIR:-}}" | tail -n1 | cut -f1))"
case ":$PATH:" in *":$prefix/bin:"*) ;; *) [ -n "${DESTDIR:-}" ] || note "$prefix/bin is not in PATH" ;; esac
