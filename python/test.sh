#!/usr/bin/env bash
# Builds the Python package's wheel, installs it into build/python, and runs its tests and the examples
# of its documentation. `test.sh -k NAME` and its like go to pytest.
set -euo pipefail
. "$(dirname "$0")/../scripts/lib.sh"
choose_target_dir
bash "$ROOT/scripts/setup.sh" rust cyclone package engines s3
cd "$ROOT/python"

# Not the profile that users get: that takes two minutes more. A target folder of its own, since
# maturin builds PyO3 in another way than the workspace does.
say "building the wheel"
rm -rf "$BUILD/wheels"
CARGO_TARGET_DIR=$TARGET/python "$PACKAGE_VENV/bin/maturin" build --quiet --locked --profile dev --features bucket,zenoh --compatibility linux \
    --out "$BUILD/wheels"
for environment in "$PACKAGE_VENV" "$ENGINES_VENV"; do
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps \
        --no-index "$BUILD"/wheels/livebag-*.whl
done
# Servers for the tests of addresses.
[ ! -x "$BUILD/s3/versitygw" ] || export LIVEBAG_VERSITYGW=$BUILD/s3/versitygw
read -ra packages <<<"${LIVEBAG_PACKAGES:--p livebag-cli --features bucket,zenoh}"
cargo build --quiet --locked --manifest-path "$ROOT/Cargo.toml" "${packages[@]}" --bins
export LIVEBAG="$TARGET/debug/livebag"
say "annotations and stubs"
"$PACKAGE_VENV/bin/python" -m mypy --cache-dir "$BUILD/mypy" src/livebag
"$PACKAGE_VENV/bin/python" -m mypy.stubtest livebag._livebag --ignore-disjoint-bases --concise \
    --mypy-config-file pyproject.toml
# From the tests' folder, so that what is imported is what was installed.
cd tests
say "datasets on engines: Ray, Daft, Polars, DuckDB"
"$ENGINES_VENV/bin/python" -m pytest -q -rs -p no:cacheprovider --rootdir "$ROOT/python" \
    --confcutdir "$ROOT/python" -W ignore::DeprecationWarning:ray engines.py "$@" || [ $? = 5 ]   # 5: -k chose none of these
say "the package"
exec "$PACKAGE_VENV/bin/python" -m pytest -q -rs -p no:cacheprovider --rootdir "$ROOT/python" \
    --confcutdir "$ROOT/python" --ignore=engines.py --doctest-modules --pyargs . livebag "$@"
