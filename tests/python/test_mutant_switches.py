"""Tests the mutants that are selected at run time: positions of branches, and excluded code."""

import json
import subprocess

from conftest import ROOT
from mutant_switches import REACHED, VARIABLE, body, switch, switched

SOURCE = """\
/// Says { what `larger` does.
pub fn larger<const N: usize>(a: [u32; N], b: u32) -> bool
where
    [u32; N]: Sized,
{
    // A brace in a comment {, in text and in a character.
    let _ = ("}", '{', r#"" }"#);
    a[0] > b
}

fn tail<'a>(text: &'a str, /* { */ at: usize) -> &'a str {
    fn double(at: usize) -> usize {
        at * 2
    }
    &text[double(at)..]
}

const fn four() -> u32 {
    2 + 2
}

fn numbers() -> impl Iterator<Item = u32> {
    0..2 + 2
}
"""
NAMES = ["larger", "tail", "double", "four", "numbers"]


def places(text, start, end):
    """Return a span of lines and columns in the format of cargo-mutants."""
    at = lambda offset: {  # noqa: E731
        "line": text.count("\n", 0, offset) + 1,
        "column": offset - text.rfind("\n", 0, offset),
    }
    return {"start": at(start), "end": at(end)}


def mutant(name, old, new, genre="BinaryOperator"):
    """Replace `old` by `new` in the function `name`, whose first and last lines have the same indentation."""
    start = SOURCE.index(f"fn {name}")
    line = SOURCE[SOURCE.rfind("\n", 0, start) + 1 :]
    brace = "\n" + line[: len(line) - len(line.lstrip())] + "}"
    end = SOURCE.index(brace, start) + len(brace)
    at = SOURCE.index(old, start)
    doc = SOURCE.rfind("///", 0, start)
    first = doc if name == "larger" else SOURCE.rfind("\n", 0, start) + 1
    return {
        "function": {"span": places(SOURCE, first, end)},
        "span": places(SOURCE, at, at + len(old)),
        "replacement": new,
        "genre": genre,
    }


def inside(one):
    range_ = body(SOURCE, one)
    return range_ and SOURCE[slice(*range_)].split()


def test_the_body_begins_after_the_signature():
    assert inside(mutant("larger", "[0] > b", "[0] < b"))[:4] == ["//", "A", "brace", "in"]
    assert inside(mutant("larger", "[0] > b", "[0] < b"))[-3:] == ["a[0]", ">", "b"]
    assert inside(mutant("tail", "double(at)", "at"))[0] == "fn"
    assert inside(mutant("double", "*", "+")) == ["at", "*", "2"]


def test_constants_and_opaque_types_have_no_switch():
    assert inside(mutant("four", "+", "-")) is None
    assert inside(mutant("numbers", "+", "-")) is None
    assert body(SOURCE, {"function": None, "span": None}) is None


def test_lines_are_assigned_to_their_mutants():
    mutants = {3: mutant("double", "*", "+"), 5: mutant("larger", "a[0] > b", "false", "FnValue")}
    text, lines = switched(SOURCE, mutants)
    code = text.split("\n")
    of = {number: [code[line - 1].strip() for line in lines if lines[line] == number] for number in mutants}
    assert of[5] == ["if crate::mutant(5) { return {", "false", "}; }"]
    assert of[3][0] == "if crate::mutant(3) { return {"
    assert "at + 2" in of[3]
    kept = [content for line, content in enumerate(code, start=1) if line not in lines]
    assert all(content in SOURCE for content in kept), "all other lines are unchanged"


def test_each_number_runs_its_mutant(tmp_path):
    mutants = {
        1: mutant("larger", "[0] > b", "[0] < b"),
        2: mutant("larger", "a[0] > b", "true", "FnValue"),
        3: mutant("tail", "double(at)", "at"),
        4: mutant("double", "*", "+"),
    }
    mutants[2]["span"] = places(SOURCE, SOURCE.index("//"), SOURCE.index("a[0] > b") + 8)
    text, _ = switched(SOURCE, mutants)
    main = """
    fn main() {
        let larger = [larger([1], 2), larger([2], 1), larger([1], 1)];
        println!("{:?}", (larger, tail("abcdefgh", 3), four(), numbers().count()));
    }
    """
    (tmp_path / "main.rs").write_text(text + switch(5) + main)
    build = [ROOT / "tools" / "with-rust", "rustc", "--edition=2024", "main.rs"]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)

    def output(number):
        env = {VARIABLE: str(number)} if number else {}
        done = subprocess.run([tmp_path / "main"], env=env, check=True, capture_output=True, text=True)
        return json.loads(done.stdout.replace("(", "[").replace(")", "]"))

    assert output(0) == [[False, True, False], "gh", 4, 4]
    assert output(1) == [[True, False, False], "gh", 4, 4]
    assert output(2) == [[True, True, True], "gh", 4, 4]
    assert output(3) == [[False, True, False], "defgh", 4, 4]
    assert output(4) == [[False, True, False], "fgh", 4, 4], "three plus two"
    assert output(5) == output(0)
    reached = tmp_path / "reached"
    subprocess.run([tmp_path / "main"], env={REACHED: str(reached)}, check=True, capture_output=True)
    assert sorted(reached.read_text().split()) == ["1", "2", "3", "4"], "each once"
