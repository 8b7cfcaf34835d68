#!/usr/bin/env python3
"""Finds circles of imports between the modules of a crate: import-circles.py [CRATE…]

A module is a folder directly below `src`, or a file there; imports within a folder are not checked. An import is a path
that begins with `crate::` outside of tests. The crate's root (`lib.rs`, `main.rs`) re-exports all and is not a module.
Circles that are there with a reason are listed in ALLOWED; one that is gone must leave the list.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Crate: sets of modules that import each other.
ALLOWED = {
    "livebag-format": [
        # A definition's hash needs its parts, decoding needs the definitions that are built in.
        {"decode", "definitions"},
        # An entry's offsets follow from MCAP's lengths, a summary is built from entries.
        {"index", "mcap"},
    ],
    # The iterator over messages and the one over columns share their feed.
    "livebag-python": [{"columns", "walk"}],
}
PATH = re.compile(r"\bcrate::(?:\{([^;]*?)\}|(\w+))", re.S)
TESTS = re.compile(r"#\[cfg\(test\)\]\s*mod \w+ \{.*\Z", re.S)


def modules(source):
    """Name -> files."""
    found = {}
    for path in source.rglob("*.rs"):
        first = path.relative_to(source).parts[0].removesuffix(".rs")
        inner = path.relative_to(source).parts
        if first in ("lib", "main", "tests", "bin", "fuzzing") or "tests" in inner or path.name in ("tests.rs",):
            continue
        found.setdefault(first, []).append(path)
    return found


def imports(files, known, own):
    named = set()
    for path in files:
        text = re.sub(r"//[^\n]*", "", TESTS.sub("", path.read_text()))
        for group, single in PATH.findall(text):
            names = re.findall(r"(?:^|,)\s*(\w+)", re.sub(r"\{[^{}]*\}", "", group)) if group else [single]
            named.update(name for name in names if name in known and name != own)
    return named


def circles(graph):
    """Strongly connected sets of more than one module (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            members = set()
            while not members or node not in members:
                members.add(stack.pop())
            if len(members) > 1:
                found.append(frozenset(members))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def main():
    crates = sys.argv[1:] or sorted(path.parent.name for path in ROOT.glob("crates/*/src"))
    wrong = 0
    for crate in crates:
        known = modules(ROOT / "crates" / crate / "src")
        graph = {name: imports(files, known, name) for name, files in known.items()}
        found, allowed = set(circles(graph)), {frozenset(names) for names in ALLOWED.get(crate, [])}
        for circle in sorted(map(sorted, found - allowed)):
            wrong += 1
            arrows = [f"{a} -> {b}" for a in circle for b in sorted(graph[a]) if b in circle]
            print(f"{crate}: {', '.join(circle)} import each other: {'; '.join(arrows)}")
        for circle in sorted(map(sorted, allowed - found)):
            wrong += 1
            print(f"{crate}: {', '.join(circle)} are no circle any more: take them out of ALLOWED")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
