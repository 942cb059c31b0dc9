#!/usr/bin/env python3
"""Checks the rules of CONTRIBUTING.md that neither compiler nor formatter enforces; prints file:line and the rule."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODE = ("src", "include", "python", "tools", "tests", "examples", "scripts", "cmake")
SUFFIXES = {".cpp", ".hpp", ".h", ".py", ".sh", ".cmake", ".pml"}
LIBRARY = ("src/", "include/", "python/csrc/", "python/npu/")
WAIT = re.compile(r"src/base/(wait|shared_word)\.[ch]pp")
LONGEST_FILE = 600

# What the library may not contain: pattern, where it is allowed all the same, why.
REFUSED = [
    (r'#include "\.\.?/', None, 'an include is "layer/file.hpp" or "symccl/file.hpp"'),
    (r"(?<!\w)v?[fd]?printf\s*\(|(?<!\w)f?puts\s*\(|\bperror\s*\(", None, "the library prints nothing: use base/log"),
    (r"\bstd::(cout|cerr|clog)\b", None, "the library prints nothing: use base/log"),
    (
        r"\bstd::(abort|exit|_Exit|quick_exit|terminate)\b|(?<![\w.>:])_?exit\s*\((?!\))|(^|[;{}!=(]|\breturn)\s*abort\s*\(",
        None,
        "the library ends no process: return a Status",
    ),
    (r"(?<!asm )(?<!__asm__ )\bvolatile\b", None, "volatile orders nothing: use SharedWord or std::atomic"),
    (r"\bPollKey\b", WAIT, "only waitUntil() may poll"),
    (
        r"\b(while|for)\s*\(.*(\.|->)(read\(\)|(load|test)\([^()]*\)[^()]*\)\s*(;|\{\s*\})\s*$)",
        WAIT,
        "a loop that waits for an atomic: use waitUntil(), or a condition variable between threads",
    ),
    (
        r"\bSYS_futex\b|\bsched_yield\b|\bthis_thread::yield\b|\b_mm_pause\b|\bia32_pause\b",
        WAIT,
        "only waitUntil() waits on memory",
    ),
    (r"\batomic_ref\b|reinterpret_cast<(const )?std::atomic", None, "words in shared memory are of type SharedWord"),
]


def without_comments_and_strings(text: str) -> str:
    """C++ with comments, strings and characters blanked; lines keep their numbers, and includes their file names."""
    token = re.compile(
        r'(?P<include>^[ \t]*#[ \t]*include[^\n]*)|//[^\n]*|/\*.*?\*/|R"(?P<tag>\w*)\(.*?\)(?P=tag)"'
        r"|\"(?:\\.|[^\"\\\n])*\"|(?<!\w)'(?:\\.|[^'\\\n])+'",
        re.S | re.M,
    )
    return token.sub(lambda match: match["include"] or re.sub(r"[^\n]", " ", match[0]), text)


def code_files() -> Iterator[Path]:
    for folder in CODE:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and (path.suffix in SUFFIXES or path.name == "CMakeLists.txt"):
                yield path


def complaints(path: Path) -> Iterator[str]:
    name = path.relative_to(ROOT).as_posix()
    text = path.read_text(encoding="utf-8")
    length = text.count("\n")
    if length > LONGEST_FILE:
        yield f"{name}:{length}: no file is longer than {LONGEST_FILE} lines"
    if path.suffix not in {".cpp", ".hpp"} or not name.startswith(LIBRARY):
        return
    for number, line in enumerate(without_comments_and_strings(text).splitlines(), 1):
        for pattern, allowed, why in REFUSED:
            if re.search(pattern, line) and not (allowed and allowed.fullmatch(name)):
                yield f"{name}:{number}: {why}"


def main() -> int:
    files = list(code_files())
    found = [complaint for path in files for complaint in complaints(path)]
    print(*found, f"{len(files)} files checked, {len(found)} complaints", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
