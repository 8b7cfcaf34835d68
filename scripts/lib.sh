# Shared by the scripts of this folder: paths, messages, and installing Debian packages. Sourced, never run.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=$ROOT/build        # everything the scripts fetch or make, git-ignored; `make clean` removes it
VENV=$ROOT/.venv         # Python packages
PACKAGE_VENV=$BUILD/python   # those that build and test the Python package of ours
ENGINES_VENV=$BUILD/engines  # those that read its datasets
LEROBOT_VENV=$BUILD/lerobot  # those that judge LeRobot datasets
STAMPS=$BUILD/stamps     # one file per finished set-up step, named after what it was made from
DEBS=$BUILD/deb          # Debian packages unpacked without root

say()  { printf '\033[1m==>\033[0m %s\n' "$*"; }
note() { printf '    %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }
[ -t 1 ] || say() { printf '==> %s\n' "$*"; }

# True if the step NAME was already done with these inputs; otherwise the caller does it, then stamp.
stamped() { [ -e "$STAMPS/$1-$(printf '%s' "$2" | sha256sum | cut -c1-16)" ]; }
stamp()   { mkdir -p "$STAMPS"; rm -f "$STAMPS/$1"-*; : > "$STAMPS/$1-$(printf '%s' "$2" | sha256sum | cut -c1-16)"; }

# The folder for Cargo's output. CI keeps it outside the clone, so that a later run on the same
# machine starts from it; nothing depends on finding one.
choose_target_dir() {
    if [ -n "${LIVEBAG_TARGET_DIR:-}" ]; then
        export CARGO_TARGET_DIR=$LIVEBAG_TARGET_DIR
    elif [ -z "${CARGO_TARGET_DIR:-}" ] && [ "${CI:-}" = true ]; then
        export CARGO_TARGET_DIR=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/livebag/target
    fi
    TARGET=${CARGO_TARGET_DIR:-$ROOT/target}
    mkdir -p "$TARGET" 2>/dev/null && [ -w "$TARGET" ] || {
        note "$TARGET cannot be written; building in $ROOT/target"
        export CARGO_TARGET_DIR=$ROOT/target
        TARGET=$ROOT/target
    }
}

# Prints the path of a browser of Chromium's kind, or returns 1.
find_browser() {
    local name
    for name in chromium-headless-shell chromium chromium-browser google-chrome; do
        command -v "$name" && return 0
    done
    return 1
}

# --- Debian packages ------------------------------------------------------------------------------

# Sets SUDO to what makes a command run as root without asking, or returns 1.
have_root() {
    if [ "$(id -u)" = 0 ]; then SUDO=(); return 0; fi
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then SUDO=(sudo -n); return 0; fi
    return 1
}

# Compilers and the like, which must be installed system-wide: install_debs WHY PACKAGE…
install_debs() {
    local why=$1; shift
    if ! command -v apt-get >/dev/null; then
        fail "$why is missing. Install what your distribution calls: $* (these are Debian's names)."
    fi
    have_root || fail "$why is missing, and this user may not install it. Run: sudo apt-get install $*"
    say "installing Debian packages system-wide for $why: $*"
    local apt=("${SUDO[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0)
    "${apt[@]}" install --no-install-recommends "$@" >"$BUILD/apt.log" 2>&1 && return 0
    note "refreshing the package lists"
    "${apt[@]}" update >"$BUILD/apt.log" 2>&1 || true
    "${apt[@]}" install --no-install-recommends "$@" >"$BUILD/apt.log" 2>&1 ||
        { tail -n 15 "$BUILD/apt.log" >&2; fail "apt-get could not install: $*"; }
}

# apt with separate lists and cache below build/, so that no root is needed and the machine's package sources do not
# change. With LIST=FILE it reads that sources list, else the machine's.
private_apt() {
    local dir=$BUILD/apt/${APT_NAME:-own} tool=$1; shift
    mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
    local options=(-q -o "Dir::State::lists=$dir/lists" -o "Dir::Cache=$dir/cache"
        -o Acquire::Languages=none -o APT::Sandbox::User=root -o Debug::NoLocking=1)
    [ -z "${LIST:-}" ] || options+=(-o "Dir::Etc::sourcelist=$LIST" -o Dir::Etc::sourceparts=/dev/null)
    "$tool" "${options[@]}" "$@"
}

# Headers and libraries that only our own build needs: fetched and unpacked below build/deb, never
# installed. unpack_debs PACKAGE… ; a package's dependencies are the caller's to name.
unpack_debs() {
    mkdir -p "$BUILD/archives" "$DEBS"
    ( cd "$BUILD/archives"
      apt-get -q download "$@" >"$BUILD/apt.log" 2>&1 && exit 0
      private_apt apt-get update >"$BUILD/apt.log" 2>&1
      private_apt apt-get download "$@" >>"$BUILD/apt.log" 2>&1 ) || return 1
    local package archive
    for package in "$@"; do
        for archive in "$BUILD/archives/${package%%[=:]*}"_*.deb; do
            dpkg-deb -x "$archive" "$DEBS" && rm -f "$archive" || return 1
        done
    done
}
