"""Reads which files of a Rust crate use which others, from the paths in their sources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

#: Comments, strings and characters, which contain no paths. Lifetimes also match, because they look like
#: the start of a character.
_NO_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|r(\#*)".*?"\1|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])'|'\w+""", re.DOTALL
)
_ITEM = re.compile(r"\b(?:struct|enum|union|trait|type|fn|const|static|macro_rules!|mod)\s+(\w+)")
_USE = re.compile(r"^[ \t]*(?:pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.MULTILINE)
_PATH = re.compile(r"(?<![\w:>])(?:\w+::)+\w+")
_TESTS = re.compile(r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*")

#: A module: the names on the path from the root of its crate.
Module = tuple[str, ...]


def code_of(text: str) -> str:
    """Return the code of a file without comments, strings, and the items that only tests contain."""
    code = _NO_CODE.sub(lambda found: "0" if found[0][0] in "'\"r" else "", text)
    while found := _TESTS.search(code):
        code = code[: found.start()] + code[_end_of_item(code, found.end()) :]
    return code


def _end_of_item(code: str, start: int) -> int:
    """Return where the item that starts there ends: after its braces, or after a semicolon or comma."""
    depth = 0
    for at in range(start, len(code)):
        if code[at] in "([{":
            depth += 1
        elif code[at] in ")]}":
            depth -= 1
            if depth < 0:
                return at
            if depth == 0 and code[at] == "}":
                return at + 1
        elif depth == 0 and code[at] in ";,":
            return at + 1
    return len(code)


def leaves(tree: str) -> Iterator[tuple[list[str], str]]:
    """Yield the path of each item in a `use` declaration, and the name that it has in the file."""
    head, brace, rest = tree.strip().partition("{")
    start = [word for word in head.strip().split("::") if word]
    if not brace:
        path, _, alias = head.partition(" as ")
        words = path.strip().split("::")
        yield words, alias.strip() or words[-1]
        return
    depth, begin, inner = 0, 0, rest[: rest.rindex("}")]
    for at, char in enumerate(inner + ","):
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            part = inner[begin:at].strip()
            begin = at + 1
            if part:
                for path, name in leaves(part):
                    if path == ["self"]:
                        yield start, start[-1] if name == "self" else name
                    else:
                        yield [*start, *path], name


class Crate:
    """The modules of a crate, each of which is a file, except modules within files."""

    def __init__(self, source: Path) -> None:
        self.code: dict[Module, str] = {}
        self.files: dict[Module, Path] = {}
        for path in sorted(source.rglob("*.rs")):
            parts = path.relative_to(source).with_suffix("").parts
            if "tests" in parts:
                continue
            module = () if parts == ("lib",) else parts[:-1] if parts[-1] == "mod" else parts
            self.files[module], self.code[module] = path, code_of(path.read_text(encoding="utf-8"))
        self.items = {module: set(_ITEM.findall(code)) for module, code in self.code.items()}
        #: What a name that a file imports stands for, as written.
        self.imported = {module: dict(self._imports(code)) for module, code in self.code.items()}

    @staticmethod
    def _imports(code: str) -> Iterator[tuple[str, list[str]]]:
        for found in _USE.finditer(code):
            for path, name in leaves(found[1]):
                yield name, path

    def resolve(
        self, module: Module, path: list[str], seen: frozenset[Module] = frozenset()
    ) -> Module | None:
        """Return the file that defines what a path in a file names, or None if it is outside the crate."""
        words = list(path)
        if words[0] == "crate":
            at, words = (), words[1:]
        elif words[0] in ("self", "super"):
            at = module
            while words and words[0] in ("self", "super"):
                at, words = at[:-1] if words[0] == "super" else at, words[1:]
        elif (*module, words[0]) in self.code or words[0] in self.imported[module]:
            at = module
        else:
            return None
        for number, word in enumerate(words):
            if (*at, word) in self.code:
                at = (*at, word)
                continue
            is_import = word in self.imported[at] and word not in self.items[at]
            if is_import and at not in seen:
                whole = [*self.imported[at][word], *words[number + 1 :]]
                return self.resolve(at, whole, seen | {at}) if whole[0] != word or len(whole) > 1 else at
            return at
        return at

    def uses(self) -> dict[Module, set[Module]]:
        """Return the other files whose items each file uses."""
        used: dict[Module, set[Module]] = {}
        for module, code in self.code.items():
            paths = [path for found in _USE.finditer(code) for path, _ in leaves(found[1])]
            paths += [found[0].split("::") for found in _PATH.finditer(_USE.sub("", code))]
            found = {self.resolve(module, path) for path in paths}
            used[module] = {other for other in found if other is not None and other != module}
        return used


def parts_of_modules(uses: dict[Module, set[Module]]) -> dict[Module, dict[str, set[str]]]:
    """Return, for each module with parts, the parts that each of its parts uses.

    A part is a file, or a file with the files of its folder. The file of the module itself is no part: it
    declares the parts, and may contain what all of them use.
    """
    graphs: dict[Module, dict[str, set[str]]] = {}
    for user, others in uses.items():
        for depth in range(len(user)):
            graphs.setdefault(user[:depth], {}).setdefault(user[depth], set())
        for other in others:
            shared = 0
            while shared < min(len(user), len(other)) and user[shared] == other[shared]:
                shared += 1
            if shared < min(len(user), len(other)):
                graphs[user[:shared]][user[shared]].add(other[shared])
    return graphs


def cycles(graph: dict[str, set[str]]) -> Iterator[list[str]]:
    """Yield the sorted names of each set of two or more nodes that reach each other."""
    reached = {start: _reached(graph, start) for start in graph}
    left = set(graph)
    while left:
        start = left.pop()
        cycle = {other for other in reached[start] if start in reached.get(other, ())} | {start}
        left -= cycle
        if len(cycle) > 1:
            yield sorted(cycle)


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return the nodes to which edges lead from a node, over any number of others."""
    found: set[str] = set()
    left = [start]
    while left:
        for other in graph.get(left.pop(), set()) - found:
            found.add(other)
            left.append(other)
    return found
