"""Inserts mutants into Rust sources, each behind a switch that is read at run time.

One build therefore contains all mutants.

A function with mutants begins with a branch per mutant, which returns the value of the changed body:

    fn larger(a: u32, b: u32) -> bool {
        if crate::mutant(17) { return { a < b }; }
        a > b
    }

The environment variable `SILVAN_MUTANT` contains the number of the mutant that runs. No mutant has number 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

#: The environment variable that selects a mutant.
VARIABLE = "SILVAN_MUTANT"
#: The environment variable with the name of a file to which the numbers of reached branches are written.
REACHED = "SILVAN_MUTANTS_REACHED"
SWITCH = """
/// Whether the mutant with this number runs.
#[doc(hidden)]
pub fn mutant(number: u32) -> bool {
    use std::io::Write;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};
    static SETTINGS: OnceLock<(u32, Option<std::fs::File>)> = OnceLock::new();
    static SEEN: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];
    let (running, log) = SETTINGS.get_or_init(|| {
        let running = std::env::var("VARIABLE").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        let log = std::env::var_os("REACHED").and_then(|name| {
            std::fs::OpenOptions::new().create(true).append(true).open(name).ok()
        });
        (running, log)
    });
    if let Some(mut log) = log.as_ref()
        && !SEEN[number as usize].swap(true, Ordering::Relaxed)
    {
        let _ = log.write_all(format!("{number}\\n").as_bytes());
    }
    *running == number
}
"""


def switch(most: int) -> str:
    """Return the function that sources from `switched` call, for numbers up to `most`.

    It belongs at the crate's root.
    """
    names = {"COUNT": str(most + 1), "VARIABLE": VARIABLE, "REACHED": REACHED}
    return re.sub("COUNT|VARIABLE|REACHED", lambda found: names[found[0]], SWITCH)


#: Matches text that is not code: comments, strings, characters. A lifetime is not a character.
NO_CODE = re.compile(
    r"""//[^\n]*
    | (?<![\w#]) (?: b | c )? r (?P<hashes>\#*) " .*? " (?P=hashes)
    | "(?: [^"\\] | \\. )*"
    | '(?: \\u\{[^}]*\} | \\. [^']* | [^'\\\n] )'""",
    re.VERBOSE | re.DOTALL,
)


def code(text: str, start: int, end: int) -> Iterator[tuple[int, str]]:
    """Yield the characters of a range that are code, with their offsets."""
    at = start
    while at < end:
        if text.startswith("/*", at):
            at = after_comment(text, at)
        elif skipped := NO_CODE.match(text, at):
            at = skipped.end()
        else:
            yield at, text[at]
            at += 1


def after_comment(text: str, at: int) -> int:
    """Return the offset after a block comment, which may contain other block comments."""
    depth = 0
    for mark in re.compile(r"/\*|\*/").finditer(text, at):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)


def offset(text: str, place: dict[str, int]) -> int:
    """Return the offset of a line and column, which count from 1."""
    at = 0
    for _ in range(place["line"] - 1):
        at = text.index("\n", at) + 1
    return at + place["column"] - 1


def span(text: str, lines: dict[str, dict[str, int]]) -> tuple[int, int]:
    """Return the first offset of a span and the offset after it."""
    return offset(text, lines["start"]), offset(text, lines["end"])


def body(text: str, mutant: dict[str, Any]) -> tuple[int, int] | None:
    """Return the range of a mutant's function body without braces; `None` if the body can have no switch.

    A `const fn` cannot read the environment. A function that returns `impl Trait` has one concrete type,
    which a mutant would change.
    """
    function = mutant.get("function")
    if not function:
        return None
    start, end = span(text, function["span"])
    depth, head = 0, list[str]()
    for at, character in code(text, start, end):
        if character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif character == "{" and depth == 0:
            words = "".join(head)
            if re.search(r"\bconst\s+(unsafe\s+)?fn\b|->.*\bimpl\b", words, re.DOTALL):
                return None
            return at + 1, end - 1
        head.append(character)
    return None


def mutated(text: str, within: tuple[int, int], mutant: dict[str, Any]) -> str:
    """Return the text of a function body with a mutant applied."""
    first, last = within
    start, end = span(text, mutant["span"])
    if mutant["genre"] == "FnValue":
        return str(mutant["replacement"])
    return f"{text[first:start]}{mutant['replacement']}{text[end:last]}"


def switched(text: str, mutants: dict[int, dict[str, Any]]) -> tuple[str, dict[int, int]]:
    """Return a source with its numbered mutants inserted, and the mutant of each line that it adds."""
    branches: dict[int, str] = {}
    for number, mutant in mutants.items():
        within = body(text, mutant)
        if within is not None:
            branch = f"\nif crate::mutant({number}) {{ return {{\n{mutated(text, within, mutant)}\n}}; }}"
            branches[within[0]] = branches.get(within[0], "") + branch
    done, at, lines = "", 0, dict[int, int]()
    for place, inserted in sorted(branches.items()):
        done += text[at:place]
        first = done.count("\n") + 1
        number = 0
        for line, content in enumerate(inserted.split("\n")):
            if begin := re.match(r"if crate::mutant\((\d+)\)", content):
                number = int(begin[1])
            if number:
                lines[first + line] = number
        done += inserted
        at = place
    return done + text[at:], lines
