"""Tests which comments and sentences a sample of the writing can contain."""

import sample_text
from sample_text import Text


def texts(found):
    return [one.text for one in found]


def test_blocks_and_trailing_comments_of_rust():
    source = (
        "/// First line\n/// and second line.\nfn a() {\n    b(); // a trailing comment\n    // one, two\n}\n"
    )
    assert list(sample_text.rust_comments("a.rs", source)) == [
        Text(
            "a.rs:1",
            "First line and second line.",
            "fn a() {\n    b(); // a trailing comment\n    // one, two\n}",
        ),
        Text("a.rs:4", "a trailing comment", "    b(); // a trailing comment"),
    ]


def test_comments_and_docstrings_of_python():
    source = (
        '"""What the file does."""\n\n#: A constant of three.\nA = 3\n\n\n'
        'def f():\n    """Return it."""\n    return A\n'
    )
    found = list(sample_text.python_comments("a.py", source))
    assert texts(found) == ["A constant of three.", "What the file does.", "Return it."]
    assert found[2].place == "a.py:8"
    assert found[2].code == "def f():\n    return A"


def test_sentences_of_a_page():
    source = (
        "# A heading of the page\n\nOne sentence with `a. B` and\nmore words. (Another one, e.g. this.)\n\n"
        "```sh\nsilvan run this is code\n```\n\n- An item of a list: Its second part follows here.\n\n"
        "| name | A cell with four words |\n"
    )
    assert texts(sample_text.markdown_sentences("a.md", source)) == [
        "One sentence with `a. B` and more words.",
        "(Another one, e.g. this.)",
        "An item of a list:",
        "Its second part follows here.",
        "A cell with four words",
    ]


def test_the_sample_depends_on_the_seed_only():
    comments, prose = sample_text.all_texts()
    assert len(comments) > 10_000
    assert len(prose) > 3_000
    assert sample_text.sample(comments, 5, 1) == sample_text.sample(comments, 5, 1)
    assert sample_text.sample(comments, 5, 1) != sample_text.sample(comments, 5, 2)
