"""Runs livebag and the two checkers."""

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SHARED = Path(os.environ.get("LIVEBAG_SHARED_DATA", ROOT.parent / "shared" / "data"))
SECONDS_MAX = 600


def run(command, passes=True):
    """Runs a command; returns its output, or, where it must fail, its error output."""
    command = [str(part) for part in command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
    if passes:
        assert done.returncode == 0, f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout
    assert done.returncode != 0, f"{' '.join(command)} should have failed\n{done.stdout}"
    return done.stderr


def check(files, *options, expect=None, passes=True):
    """What check_mcap.py says of these files."""
    if expect:
        options += ("--expect", expect)
    said = run([sys.executable, HERE / "check_mcap.py", *files, *options], passes)
    return json.loads(said) if passes else said


def check_node(files, passes=True):
    """What check_mcap.mjs says of these files."""
    said = run(["node", HERE / "check_mcap.mjs", *files], passes)
    return json.loads(said) if passes else said


def livebag(*arguments):
    return run([os.environ["LIVEBAG"], *arguments])
