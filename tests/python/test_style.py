"""Rejects phrases that make documentation, comments and messages hard to read.

`python tests/python/test_style.py crates python` lists the matches in other folders.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: Files and folders that must be free of these phrases. Add a folder when its comments are rewritten.
COVERED = (
    "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs", "fuzz/README.md", "tests/data", "benches",
    "crates", "tools", "verify", "python", "papers", "tests", "Cargo.toml", "pyproject.toml",
)  # fmt: skip
#: Regular expressions, and what to write instead. A space matches any white space, including line breaks.
PHRASES = [
    (r"\b(some|any|no|every)body('s)?\b", "name the component: the output, the host, all hosts, no flow"),
    (r"\b(who|what|which)(so)?ever (\w+ )?(wants|sends|waits|arrives|looks|asks)\b", "name the component"),
    (r"\bwhoever\b", "name the component"),
    (r"\bwhat waits\b", "packets that wait"),
    (r"\bfor want of\b", "because it lacks"),
    (r"\bsee(s|n)? to it that\b", "ensures that"),
    (r"\b(to|is|are) blame\b", "a contributor"),
    (r"\bno proof of guilt\b", "does not distinguish contributors from victims"),
    (r"\blives? from\b", "requires"),
    (r"\b(let|lets|letting) go\b", "is released, resumed"),
    (r"\b(is|are|was|were|be|been) told\b", "is informed, receives, is reported"),
    (r"\bhears? (of|from|that)\b", "receives, is notified"),
    (r"\b(has|have|had) a say\b", "affects"),
    (r"\bfor ever\b", "indefinitely, permanently"),
    (r"\bwithout end\b", "unlimited"),
    (r"\bin vain\b", "unsuccessful, without effect"),
    (r"\bkin\b", "similar tools"),
    (r"\bprun(e|es|ed|ing)\b", "shrinks, removes (congestion trees)"),
    (r"\bdear(er)?\b", "expensive, costs more"),
    (r"\bbeside\b", "next to, with, compared with"),
    (r"\bbesides\b", "in addition, too"),
    (r"\b(hence|whence|hither|thither|whither)\b", "so, from which, to which"),
    (r"\b(thereby|therein|thereof|whereby|wherein)\b", "in this way, by which, in which"),
    (r"\banew\b", "again"),
    (r"\bso many\b", "a given number of"),
    (r"\bas is said\b", "as described"),
    (r"\bforesee(s|n|ing)?\b|\bforesaw\b|\bforetell\b", "prefetches, predicts"),
    (r"\blook(s|ed|ing)? ahead\b", "prefetches"),
    (r"\b(from look to look|(next|a|last) look)\b", "a sample, the next sampling time"),
    (r"\boutputs? (\w+ )?apart\b", "binned scheduler"),
    (r"\b(tell|tells|told|run|runs|keep|keeps|kept|set|sets|stands?) apart\b", "distinguishes, separates"),
    (r"\b(mend|mends|mended|mending)\b", "fixes"),
    (r"\bstands? still\b", "stalls"),
    (r"\b(stand|stands|standing) (congestion )?trees?\b|\btrees? that stand\b", "silent tree"),
    (r"\bsway(s|ed|ing)?\b", "windy"),
    (r"(?<!<)\b(wait|waits|waiting|dependencies|links|channels|buffers) (\w+ )*circles?\b", "cycle"),
    (r"\bdrawn (scenario|network|tree|graph|job|case)s?\b", "random scenario"),
    (r"\bheld against\b", "compared with"),
    (r"\bthe house\b", "the source code, the repository"),
    (r"\bthe books\b", "packet and credit accounting"),
    (r"\bexperimenter's hand\b", "an external trigger"),
    (r"\bscrews\b", "parameters"),
    (r"\bwhat comes of\b", "the result"),
    (r"\bgo(es)? on\b", "continues"),
    (r"\bin place of\b", "instead of"),
]  # fmt: skip
COMPILED = [(re.compile(phrase.replace(" ", r"\s+"), re.IGNORECASE), advice) for phrase, advice in PHRASES]

#: Matches comments and strings. Characters and lifetimes also match, so that they can be skipped.
RUST = re.compile(r"""//[^\n]*|/\*.*?\*/|r(\#*)".*?"\1|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])'|'\w+""", re.DOTALL)

#: Matches a string of one word in Python.
WORD = re.compile(r"""["']\w+["']""")
#: Matches comments and strings of TOML files.
TOML = re.compile(r"""#[^\n]*|""\".*?""\"|"(?:\\.|[^"\\\n])*"|'[^'\n]*'""", re.DOTALL)


def blank(text: str) -> str:
    """Replace everything but line breaks by spaces, so that offsets stay the same."""
    return re.sub(r"[^\n]", " ", text)


def markdown_prose(text: str) -> str:
    """Keep only the prose of a page, without code and link targets."""
    text = re.sub(r"^ *```.*?^ *```", lambda found: blank(found[0]), text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`]*`|\]\([^)]*\)", lambda found: blank(found[0]), text)


def rust_prose(text: str) -> str:
    """Keep only comments and string literals."""
    kept, end = [], 0
    for found in RUST.finditer(text):
        kept.append(blank(text[end : found.start()]))
        token = found[0]
        kept.append(blank(token) if token.startswith("'") else token)
        end = found.end()
    kept.append(blank(text[end:]))
    # Comment markers would separate the words of a phrase that continues on the next line.
    return re.sub(r"(?m)^( *)//[/!]?", lambda found: blank(found[0]), "".join(kept))


def python_prose(text: str) -> str:
    """Keep only comments and string literals, including docstrings."""
    lines = text.splitlines(keepends=True)
    kept = [list(blank(line)) for line in lines]
    # From Python 3.12 on, the literal parts of f-strings are tokens of their own.
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        # A string of one word is a key or a name, not prose.
        if token.type in kinds and not WORD.fullmatch(token.string):
            (first, begin), (last, end) = token.start, token.end
            for row in range(first - 1, last):
                start = begin if row == first - 1 else 0
                stop = end if row == last - 1 else len(lines[row])
                kept[row][start:stop] = lines[row][start:stop]
    prose = "".join(map("".join, kept))
    return re.sub(r"(?m)^( *)#:?", lambda found: blank(found[0]), prose)


def toml_prose(text: str) -> str:
    """Keep only comments and strings, without the marks of comments."""
    kept, end = [], 0
    for found in TOML.finditer(text):
        kept.append(blank(text[end : found.start()]))
        kept.append(found[0])
        end = found.end()
    kept.append(blank(text[end:]))
    return re.sub(r"(?m)^( *)#+", lambda found: blank(found[0]), "".join(kept))


def prose(name: str, text: str) -> str:
    """Return the parts of a file that people read, at their offsets."""
    if name.endswith(".rs"):
        return rust_prose(text)
    if name.endswith((".py", ".pyi")):
        return python_prose(text)
    if name.endswith(".toml"):
        return toml_prose(text)
    return markdown_prose(text)


def matches(name: str, text: str) -> Iterator[tuple[int, str, str, str]]:
    """Yield line, found text, phrase and advice."""
    readable = prose(name, text)
    # Most of the text is blank code, in which a search for every phrase would take long.
    dense = " ".join(readable.split())
    for (phrase, _), (pattern, advice) in zip(PHRASES, COMPILED, strict=True):
        for found in pattern.finditer(readable) if pattern.search(dense) else ():
            line = readable.count("\n", 0, found.start()) + 1
            yield line, " ".join(found[0].split()), phrase, advice


def files(*places: str) -> list[str]:
    """List the tracked Markdown, Rust, Python and TOML files in these places, except this file."""
    listed = subprocess.run(
        ["git", "ls-files", "--", *places], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    own = Path(__file__).relative_to(ROOT).as_posix()
    names = [name for name in listed if name.endswith((".md", ".rs", ".py", ".pyi", ".toml"))]
    return [name for name in names if name != own and (ROOT / name).is_file()]


def test_texts_are_plain_english() -> None:
    wrong = []
    for name in files(*COVERED):
        for line, found, _, advice in matches(name, (ROOT / name).read_text(encoding="utf-8")):
            wrong.append(f"{name}:{line}: {found!r}: write {advice!r}")
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.toml", "# for\n# ever\nkin = 'kin' # dear\nb = \"\"\"\nanew\"\"\"", [1, 3, 3, 5]),
        ("a.md", "Nobody\nwaits.\n\n```sh\nnobody\n```\n`nobody` and what\nwaits", [1, 7]),
        ("a.rs", 'fn a() { // for\n    // ever\n    let t = "kin"; let c = \'"\'; // dear\n}', [1, 3, 3]),
        ("a.py", '"""Nobody."""\nnobody = 1  # so\n# many\nraise E(f"{one} goes on")\n', [1, 2, 4]),
    ],
)  # fmt: skip
def test_phrases_are_found_where_people_read_them(name: str, text: str, lines: list[int]) -> None:
    assert sorted(line for line, *_ in matches(name, text)) == lines


def test_every_phrase_is_a_pattern_of_its_own() -> None:
    assert len({phrase for phrase, _ in PHRASES}) == len(PHRASES)


def main(places: list[str]) -> None:
    """Print all matches in these places, and the number of matches of each phrase."""
    counts: dict[str, int] = {}
    for name in files(*places):
        for line, found, phrase, advice in matches(name, (ROOT / name).read_text(encoding="utf-8")):
            counts[phrase] = counts.get(phrase, 0) + 1
            print(f"{name}:{line}: {found!r}: write {advice!r}")
    for phrase, count in sorted(counts.items(), key=lambda one: -one[1]):
        print(f"{count:5} {phrase}")
    print(f"{sum(counts.values()):5} in total")


if __name__ == "__main__":
    main(sys.argv[1:] or list(COVERED))
