#!/usr/bin/env bash
# All checks, in order, up to the first that fails: test.sh [STEP…]. Steps: fmt clippy test loom
# features deny aarch64 cpp install interop page python.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
choose_target_dir
mkdir -p "$BUILD"
cd "$ROOT"
# Where CI runs, every peer is there: a test that lacks one fails.
[ "${CI:-}" != true ] || export CARGO_INCREMENTAL=0 LIVEBAG_REQUIRE=all

step_fmt()     { cargo fmt --all --check && python3 scripts/import-circles.py &&
    python3 scripts/bench-table.py --check; }
step_clippy()  { cargo clippy --locked --workspace --all-features --all-targets -- -D warnings; }
step_test()    { bash scripts/setup.sh dds shells && cargo test --locked --workspace --all-features; }
step_features() { bash scripts/features.sh; }
# loom replaces the crate's atomics, hence a separate target folder. A run that matched no test has proved nothing.
step_loom()    {
    RUSTFLAGS="${RUSTFLAGS:-} --cfg loom" cargo test --locked --profile loom -p livebag-shm --lib \
        --target-dir "$TARGET/loom" loom 2>&1 | tee "$BUILD/loom.log"
    [ "${PIPESTATUS[0]}" = 0 ] && [ "$(grep -c '^test result: ok. [1-9]' "$BUILD/loom.log")" = 1 ]
}
step_deny()    { bash scripts/deny.sh; }
step_aarch64() { bash scripts/aarch64.sh; }
step_cpp()     { LIVEBAG_PACKAGES="--workspace --all-features" bash scripts/cpp.sh; }
step_install() { LIVEBAG_PACKAGES="--workspace --all-features" bash scripts/release-test.sh; }
step_interop() { LIVEBAG_PACKAGES="--workspace --all-features" bash tests/interop/run.sh; }
step_page()    { LIVEBAG_PACKAGES="--workspace --all-features" bash tests/page/run.sh; }
step_python()  { LIVEBAG_PACKAGES="--workspace --all-features" bash python/test.sh; }

declare -A title=(
    [fmt]="cargo fmt --check, benchmark tables are those of their run" [clippy]="clippy, all targets, warnings denied"
    [test]="unit, integration and documentation tests" [loom]="loom: slots under every interleaving"
    [features]="the features that users can pick, each alone, and none"
    [deny]="licences, sources and bans of dependencies" [aarch64]="compiles for aarch64"
    [cpp]="the C++ header, and the ROS package without ROS" [install]="what users install, in clean folders: prefix, .deb, CMake package"
    [interop]="bricks and exports read by other readers, the report by a browser"
    [page]="the page: types, and every view in a browser"
    [python]="the Python package, beside rosbags and mcap")

[ $# -gt 0 ] || set -- fmt clippy test loom features deny aarch64 cpp install interop page python
bash scripts/setup.sh rust cyclone || exit 1

passed=0; skipped=0; report=()
for step in "$@"; do
    [ -n "${title[$step]:-}" ] || fail "test.sh knows: ${!title[*]}; not '$step'"
    say "$step: ${title[$step]}"
    began=$SECONDS
    "step_$step" </dev/null
    code=$?
    took=$((SECONDS - began))
    case $code in
        0)  passed=$((passed + 1)); report+=("$(printf '%-8s passed   %4d s' "$step" "$took")") ;;
        77) skipped=$((skipped + 1)); report+=("$(printf '%-8s SKIPPED  %4d s   (its last line above says why)' "$step" "$took")") ;;
        *)  report+=("$(printf '%-8s FAILED   %4d s   (exit code %d; alone: scripts/test.sh %s)' "$step" "$took" "$code" "$step")")
            printf '\n'; printf '    %s\n' "${report[@]}"
            printf '%d passed, 1 failed, %d skipped\n' "$passed" "$skipped"
            exit 1 ;;
    esac
done
printf '\n'; printf '    %s\n' "${report[@]}"
if [ "$skipped" = 0 ]; then printf '%d passed, 0 failed\n' "$passed"
else printf '%d passed, 0 failed, %d skipped\n' "$passed" "$skipped"; fi
