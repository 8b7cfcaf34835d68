#!/usr/bin/env bash
# Checks the page's modules (types, size, that nothing is fetched from elsewhere) and drives it in a browser, against
# real servers. `run.sh NAME` runs the tests whose names match; `run.sh pictures` makes docs/pictures/ again;
# `run.sh figures` tells what the page costs, and `run.sh watch MINUTES` whether memory stays flat (neither is a test).
set -euo pipefail
. "$(dirname "$0")/../../scripts/lib.sh"
choose_target_dir
bash "$ROOT/scripts/setup.sh" rust cyclone page
cd "$ROOT"
page=crates/livebag-net/src/page

say "types of the page's modules"
"$BUILD/page/node_modules/.bin/tsc" -p tests/page
long=$(wc -l "$page"/*.js | awk '$2 != "total" && $1 > 400 { print $2 }')
[ -z "$long" ] || fail "a module has one subject, in at most 400 lines: $long"
# Web addresses are links that a user may click; nothing is loaded from them (default-src 'self').
! grep -nE "(import|from|src=|href=|url\()[ \"'(]*(https?:)?//" "$page"/* || fail "the page loads something from elsewhere"

# What index.html fetches ahead is every module there is. main.js is fetched anyway, types.js holds types only.
diff <(sed -n 's/.*modulepreload" href="\/page\/\(.*\)">/\1/p' "$page/index.html") \
    <(cd "$page" && ls -- *.js | grep -vxE 'main.js|types.js') || fail "index.html names other modules than there are"

# Chromium itself: its headless shell has no WebGL.
LIVEBAG_BROWSER=$(command -v chromium || command -v google-chrome || find_browser) || {
    [ "${CI:-}" != true ] || fail "the page's tests need a browser (Debian: chromium)"
    echo "SKIPPED: the page's tests need a browser (Debian: chromium)"
    exit 77
}
export LIVEBAG_BROWSER
say "building the command and the simulated drive"
read -ra packages <<<"${LIVEBAG_PACKAGES:--p livebag-cli -p livebag-net --all-features}"
cargo build --quiet --locked "${packages[@]}" --bin livebag --example make_drive
export LIVEBAG=$TARGET/debug/livebag LIVEBAG_MAKE_DRIVE=$TARGET/debug/examples/make_drive
export LIVEBAG_PAGE_NPM=$BUILD/page LIVEBAG_PAGE_FOLDER=$BUILD/page/runs
if [ "${1:-}" = pictures ]; then
    node tests/page/pictures.mjs docs/pictures
    # Pictures in a repository are small: at most 256 colours.
    command -v pngquant >/dev/null || install_debs "small pictures" pngquant
    exec pngquant --force --ext .png --strip --quality 0-90 docs/pictures/*.png
fi
if [ "${1:-}" = figures ] || [ "${1:-}" = watch ]; then
    [ "$1" = watch ] || [ -n "${LIVEBAG_NPM:-}" ] || bash "$ROOT/scripts/setup.sh" node
    export LIVEBAG_NPM=${LIVEBAG_NPM:-$BUILD/npm}
    # Its own folder: tests may run beside it.
    export LIVEBAG_PAGE_FOLDER=$BUILD/page/$1
    code=0
    node "tests/page/$1.mjs" "${@:2}" || code=$?
    rm -rf "$LIVEBAG_PAGE_FOLDER"
    exit $code
fi
say "the page in a browser"
code=0
node --test ${1:+--test-name-pattern="$1"} --test-concurrency=1 --test-reporter=spec \
    tests/page/*.test.mjs || code=$?
rm -rf "$LIVEBAG_PAGE_FOLDER"
exit $code
