#!/usr/bin/env python3
"""Draws a random sample of comments and sentences for a review of the writing.

    tools/sample_text.py --seed 1 --comments 40 --sentences 40

A comment is a docstring or a block of adjacent comment lines; the code that follows is printed with it.
Sentences come from Markdown pages and from the texts of published experiments. Equal seeds draw equal samples
from equal files.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
#: Files with comments, and files with sentences, as patterns of Git.
CODE = ("crates/*.rs", "python/*.py", "tools/*.py", "verify/*.py", "papers/*.py")
PROSE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "papers/*/published.toml")

#: The end of a sentence: punctuation, perhaps a closing bracket, white space, and the start of a sentence.
END = re.compile(r"(?:(?<=[.!?:])|(?<=[.!?]\)))(?<!e\.g\.)(?<!i\.e\.)(?<!Eq\.)(?<!vs\.)\s+(?=[A-Z`\"(\[*])")
RUST_COMMENT = re.compile(r"^\s*//[/!]?")
TRAILING = re.compile(r"[;{},)]\s+//\s")


class Text(NamedTuple):
    """One comment or sentence, with its place and the code that follows it."""

    place: str
    text: str
    code: str = ""


def tracked(patterns: tuple[str, ...]) -> list[str]:
    """Return the tracked files that match a pattern."""
    command = ["git", "ls-files", "--", *patterns]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def blocks(name: str, lines: list[str], marker: re.Pattern[str]) -> Iterator[Text]:
    """Yield blocks of adjacent lines that start with the marker, each with the five lines after the block.

    Blocks of at most two words are omitted.
    """
    start = 0
    while start < len(lines):
        if not marker.match(lines[start]):
            start += 1
            continue
        end = start
        while end < len(lines) and marker.match(lines[end]):
            end += 1
        text = " ".join(marker.sub("", line).strip() for line in lines[start:end])
        if len(text.split()) > 2:
            yield Text(f"{name}:{start + 1}", text, "\n".join(lines[end : end + 5]))
        start = end


def rust_comments(name: str, source: str) -> Iterator[Text]:
    """Yield the comments of a Rust file."""
    lines = source.splitlines()
    yield from blocks(name, lines, RUST_COMMENT)
    for number, line in enumerate(lines, 1):
        if not RUST_COMMENT.match(line) and (found := TRAILING.search(line)):
            yield Text(f"{name}:{number}", line[found.end() :], line)


def python_comments(name: str, source: str) -> Iterator[Text]:
    """Yield the comments and docstrings of a Python file."""
    lines = source.splitlines()
    yield from blocks(name, lines, re.compile(r"^\s*#(?!!)[:]?"))
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if (text := ast.get_docstring(node)) and isinstance(first := node.body[0], ast.Expr):
            code = lines[node.lineno - 1 : node.lineno] if not isinstance(node, ast.Module) else []
            yield Text(f"{name}:{first.lineno}", text, "\n".join([*code, *lines[first.end_lineno :][:5]]))


def sentences(place: str, prose: str) -> Iterator[Text]:
    """Yield the sentences of a paragraph."""
    # Code contains no ends of sentences.
    whole = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", "\0"), " ".join(prose.split()))
    for sentence in END.split(whole):
        text = sentence.replace("\0", " ")
        if len(text.split()) > 3:
            yield Text(place, text)


def markdown_sentences(name: str, source: str) -> Iterator[Text]:
    """Yield the sentences of a page, without headings, code and numbers in tables."""
    source = re.sub(r"^ *```.*?^ *```", lambda it: "\n" * it[0].count("\n"), source, flags=re.M | re.S)
    source = re.sub(r"<!--.*?-->", lambda it: "\n" * it[0].count("\n"), source, flags=re.S)
    paragraph: list[str] = []
    begin = 1
    for number, line in enumerate([*source.splitlines(), ""], 1):
        item = re.match(r"\s*([-*]|\d+\.)\s+", line)
        table = line.lstrip().startswith("|")
        if paragraph and (not line.strip() or item or table or line.startswith("#")):
            yield from sentences(f"{name}:{begin}", " ".join(paragraph))
            paragraph = []
        if table:
            for cell in line.strip().strip("|").split("|"):
                yield from sentences(f"{name}:{number}", cell)
        elif line.strip() and not line.startswith("#"):
            if not paragraph:
                begin = number
            paragraph.append(line[item.end() :] if item else line.strip())


def strings(value: object) -> Iterator[str]:
    """Yield all strings in a parsed TOML file that have at least four words."""
    if isinstance(value, str):
        if len(value.split()) > 3:
            yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings(inner)


def all_texts() -> tuple[list[Text], list[Text]]:
    """Return all comments and all sentences of the repository."""
    comments: list[Text] = []
    for name in tracked(CODE):
        source = (ROOT / name).read_text(encoding="utf-8")
        comments += rust_comments(name, source) if name.endswith(".rs") else python_comments(name, source)
    prose: list[Text] = []
    for name in tracked(PROSE):
        source = (ROOT / name).read_text(encoding="utf-8")
        if name.endswith(".md"):
            prose += markdown_sentences(name, source)
        else:
            for text in strings(tomllib.loads(source)):
                prose += sentences(name, text)
    return comments, prose


def sample(texts: list[Text], number: int, seed: int) -> list[Text]:
    """Draw texts at random."""
    return random.Random(seed).sample(texts, number)


def main() -> None:
    """Print a sample."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--comments", type=int, default=40)
    parser.add_argument("--sentences", type=int, default=40)
    options = parser.parse_args()
    comments, prose = all_texts()
    print(f"{len(comments)} comments and {len(prose)} sentences")
    for letter, texts, number in (("C", comments, options.comments), ("S", prose, options.sentences)):
        for index, text in enumerate(sample(texts, number, options.seed), 1):
            print(f"\n{letter}{index} {text.place}\n    {text.text}")
            for line in text.code.splitlines():
                print(f"    | {line}")


if __name__ == "__main__":
    main()
