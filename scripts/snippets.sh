#!/usr/bin/env bash
# The C++ and Python of README.md and the guides: C++ must compile, Python must parse.
set -euo pipefail
cd "$(dirname "$0")/.."
python3 - README.md docs/cpp.md docs/recording.md docs/python.md python/README.md <<'PY'
import ast, re, subprocess, sys

checked = 0
for path in sys.argv[1:]:
    for language, code in re.findall(r"```(cpp|python)\n(.*?)```", open(path).read(), re.S):
        checked += 1
        if language == "python":
            ast.parse(code, path)
            continue
        command = ["c++", "-std=c++17", "-Wall", "-Wextra", "-fsyntax-only", "-Icpp/include", "-x", "c++", "-"]
        if subprocess.run(command, input=code, text=True).returncode:
            sys.exit(f"snippets: C++ of {path} does not compile:\n{code}")
print(f"{checked} snippets of README and guides compile or parse")
PY
