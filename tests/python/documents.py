"""Runs the README and the pages of docs/ as a reader would, and compares the outputs that they show.

A page is run from its first line to its last, in a folder outside the repository. The folder contains the
repository's `scenarios`, `studies`, `papers`, `verify` and data, and `silvan` is on the path:

| block | what is done with it |
| --- | --- |
| `sh` | each command is run by bash and must succeed |
| `console` | commands behind `$ `, and what each prints; one that shows `Error:` must fail with status 1 |
| `python` | run; all Python blocks of a page share their names |
| `toml` | saved where the paragraph before says "Save this as `NAME`"; else it must be TOML at least |
| `text` | saved as `toml` is; or, after a Python block and "prints:", what the block printed |
| `rust`, `diff`, other `text` | not run |

In a shown output, a line `...` stands for any lines, and a sequence of spaces counts as one space. Values in
the text and the tables of a page are also compared: see `Value`.

If a block is not run as shown, `test_documents.py` states the reason. For a `Skip`, the page also states it,
in a line `*Not run by the tests: the reason.*` below the block. An `Instead` runs a shorter command. Every
`Skip` and `Instead` must match the page.

If results change, `SILVAN_UPDATE=1 python -m pytest tests/python/test_documents.py` writes the new outputs
and values into the pages. Review the difference before you commit it.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from conftest import FABRICS, PLAIN, ROOT, silvan_command

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LANGUAGES = ("sh", "console", "python", "c", "toml", "text", "rust", "diff")
UPDATE = bool(os.environ.get("SILVAN_UPDATE"))
SECONDS_AT_MOST = 240
SAVED = re.compile(r"[Ss]ave (?:this|it) as\s+`([^`]+)`")
NOT_TESTED = re.compile(r"\*Not run by the tests: (.+)\.\*")
#: Recorded outputs of tools that need a real fabric.
STAND_INS = {
    "ibnetdiscover": FABRICS / "sw2-h7" / "updn" / "ibnetdiscover.topo",
    "dump_fts": FABRICS / "sw2-h7" / "updn" / "opensm-lfts.dump",
}
#: User files that pages mention, with the files that replace them in the tests.
GIVEN = {
    "my.ibnetdiscover": FABRICS / "sw2-h7" / "updn" / "ibnetdiscover.topo",
    "opensm-lfts.dump": FABRICS / "sw2-h7" / "updn" / "opensm-lfts.dump",
}
COPIED = ("scenarios", "studies")
LINKED = ("papers", "verify", "tests", "benches")


@dataclass(frozen=True)
class Block:
    """A fenced code block of a page."""

    page: str
    language: str
    text: str
    #: Line numbers, from 0, of the content between the fences.
    start: int
    indent: str
    #: The paragraph directly before the block; the next field is the one after it.
    before: str = ""
    after: str = ""
    #: Whether the block shows the output of a Python block.
    of_python: bool = False

    def __str__(self) -> str:
        return f"{self.page}:{self.start + 1}"


@dataclass(frozen=True)
class Skip:
    """A block that cannot be run. The page states the reason `why` below the block."""

    page: str
    #: Start of the block's first line.
    first: str
    why: str

    def of(self, block: Block) -> bool:
        """Return whether this entry matches a block."""
        return self.page == block.page and block.text.startswith(self.first)


@dataclass(frozen=True)
class Instead:
    """A slow command, and a shorter one that the tests run instead. The page cannot show its output."""

    page: str
    shown: str
    run: str
    why: str


@dataclass(frozen=True)
class Value:
    """A value in the text of a page: the group of `pattern`, and how to compute it.

    `compute` receives the variables of the page's Python blocks and the shown value; it returns the correct
    value.
    """

    page: str
    pattern: str
    compute: Callable[[Mapping[str, Any], str], str]


@dataclass
class Plan:
    """The blocks of a page that are not run as shown."""

    skips: Sequence[Skip] = ()
    insteads: Sequence[Instead] = ()

    def skipped(self, block: Block) -> Skip | None:
        """Return the entry for a block that is not run; None for other blocks."""
        return next((skip for skip in self.skips if skip.of(block)), None)

    def text(self, block: Block) -> str:
        """Return the text to run for a block."""
        text = block.text
        for instead in self.insteads:
            if instead.page == block.page:
                text = text.replace(instead.shown, instead.run)
        return text


@dataclass
class Difference:
    """A wrong output or value on a page, with the correct one."""

    where: str
    start: int
    shown: list[str]
    right: list[str]

    def __str__(self) -> str:
        lines = difflib.unified_diff(self.shown, self.right, "shown", "printed", lineterm="")
        return f"{self.where}\n" + "\n".join(lines)


def pages() -> list[str]:
    """Return the paths of all pages, relative to the root of the repository."""
    return ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))]


def blocks(page: str) -> list[Block]:
    """Parse the fenced blocks of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    lines = text.split("\n")
    tokens = [token for token in MarkdownIt().parse(text) if token.map and token.type in ("fence", "inline")]
    found: list[Block] = []
    for n, token in enumerate(tokens):
        if token.type != "fence":
            continue
        before = tokens[n - 1].content if n and tokens[n - 1].type == "inline" else ""
        after = tokens[n + 1].content if n + 1 < len(tokens) and tokens[n + 1].type == "inline" else ""
        told = token.info == "text" and before.endswith("prints:") and bool(found)
        indent = re.match(" *", lines[token.map[0]])[0]
        found.append(
            Block(page, token.info, token.content, token.map[0] + 1, indent, before, after,
                  told and found[-1].language == "python")
        )  # fmt: skip
    return found


def commands(block: Block, text: str) -> Iterator[tuple[str, list[str] | None, int]]:
    """Yield the commands of a block, each with the output shown for it, if any, and its first line number."""
    lines = text.rstrip("\n").split("\n")
    if block.language == "sh":
        for n, line in enumerate(lines):
            if line.strip() and not line.startswith("#"):
                yield line, None, block.start + n
        return
    starts = [n for n, line in enumerate(lines) if line.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield lines[start][2:], lines[start + 1 : end], block.start + start + 1


@dataclass
class Reader:
    """A simulated reader, who follows a page in a separate folder."""

    folder: Path
    plan: Plan
    names: dict[str, Any] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)

    def prepare(self) -> None:
        """Create the folder, and the commands that pages assume."""
        home, tools = self.folder, self.folder.with_name(f"{self.folder.name}-bin")
        for folder in (home, tools):
            folder.mkdir()
        for name in COPIED:
            shutil.copytree(ROOT / name, home / name)
        for name in LINKED:
            (home / name).symlink_to(ROOT / name)
        (home / ".venv").symlink_to(sys.prefix)
        for name, source in GIVEN.items():
            shutil.copy(source, home / name)
        scripts = {"silvan": f'{shlex.join(silvan_command())} "$@"'}
        scripts |= {name: f'cat "{source}"' for name, source in STAND_INS.items()}
        for name, script in scripts.items():
            (tools / name).write_text(f"#!/bin/sh\nexec {script}\n", encoding="utf-8")
            (tools / name).chmod(stat.S_IRWXU)
        self.environment = {
            **os.environ,
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            **PLAIN,
        }

    def follow(self, page: str) -> None:
        """Execute a page block by block."""
        for block in blocks(page):
            if self.plan.skipped(block):
                continue
            text = self.plan.text(block)
            if block.language in ("sh", "console"):
                for command, shown, start in commands(block, text):
                    self.run(f"{page}:{start}", command, shown, start, block.indent)
            elif block.language == "python":
                self.python(block, text)
            elif block.language == "toml":
                tomllib.loads(text)
                self.save(block, text)
            elif block.language == "text" and not block.of_python:
                self.save(block, text)
            elif block.of_python:
                self.compare(
                    str(block), block.start, text.rstrip("\n").split("\n"), self.printed, block.indent
                )

    def run(self, where: str, command: str, shown: list[str] | None, start: int, indent: str) -> None:
        """Run a command; if the page shows an output, compare it."""
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=SECONDS_AT_MOST,
            check=False,
        )  # fmt: skip
        expected = int(bool(shown) and shown[0].startswith("Error:"))
        assert done.returncode == expected, f"{where}: {command}: status {done.returncode}\n{done.stderr}"
        if shown:
            printed = done.stderr if expected else done.stdout
            self.compare(f"{where}: {command}", start, shown, printed.rstrip("\n").split("\n"), indent)

    def python(self, block: Block, text: str) -> None:
        """Run a Python block."""
        out = io.StringIO()
        code = compile("\n" * block.start + text, ROOT / block.page, "exec")
        with contextlib.redirect_stdout(out):
            exec(code, self.names)
        self.printed = out.getvalue().rstrip("\n").split("\n")

    def save(self, block: Block, text: str) -> None:
        """Save a block as a file if the page instructs the reader to do so."""
        if saved := SAVED.search(block.before):
            target = self.folder / saved[1]
            assert target.parent.is_dir(), f"{block}: no folder for {saved[1]}"
            target.write_text(text, encoding="utf-8")

    def compare(self, where: str, start: int, shown: list[str], printed: list[str], indent: str) -> None:
        """Record a difference between the shown and the actual output."""
        pattern = "\n".join(".*" if line == "..." else re.escape(_spaced(line)) for line in shown)
        if re.fullmatch(
            pattern.replace("\n.*\n", "\n(?:.*\n)?"), "\n".join(map(_spaced, printed)), re.DOTALL
        ):
            return
        right = [line if line == "..." else _closest(line, printed) for line in shown]
        if "..." not in shown:
            right = printed
        self.differences.append(
            Difference(where, start, [indent + line for line in shown], [indent + line for line in right])
        )


def _spaced(line: str) -> str:
    return " ".join(line.split())


def _closest(line: str, printed: list[str]) -> str:
    return next(
        iter(difflib.get_close_matches(line, printed, 1, 0.3)), "(nothing like it is printed)"
    ).rstrip()


def check_values(page: str, values: Sequence[Value], names: Mapping[str, Any]) -> list[Difference]:
    """Compare the values in a page with the correct values."""
    text = (ROOT / page).read_text(encoding="utf-8")
    differences = []
    for value in values:
        if value.page != page:
            continue
        found = re.search(value.pattern, text)
        assert found, f"{page}: no text matches {value.pattern!r} any more; update the table of values"
        right = value.compute(names, found[1])
        if right != found[1]:
            start = text.count("\n", 0, found.start(1))
            line = text.split("\n")[start]
            differences.append(
                Difference(f"{page}:{start + 1}", start, [line], [line.replace(found[1], right)])
            )
    return differences


def settle(page: str, differences: Sequence[Difference]) -> None:
    """Fail if there are differences, or write the correct text into the page if requested."""
    if differences and not UPDATE:
        told = "\n\n".join(map(str, differences))
        refresh = "SILVAN_UPDATE=1 python -m pytest tests/python/test_documents.py"
        pytest.fail(f"{told}\n\nIf what is printed is right: {refresh}", pytrace=False)
    lines = (ROOT / page).read_text(encoding="utf-8").split("\n")
    # Start at the end, so that earlier line numbers remain valid.
    for difference in sorted(differences, key=lambda one: -one.start):
        assert lines[difference.start : difference.start + len(difference.shown)] == difference.shown
        lines[difference.start : difference.start + len(difference.shown)] = difference.right
    if differences:
        (ROOT / page).write_text("\n".join(lines), encoding="utf-8")
