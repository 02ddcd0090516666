"""Converts docstrings to Markdown: references become plain code, and text after ``>>>`` becomes a block."""

import re
from typing import Any

from griffe import Docstring, Extension, Module, Object

#: References such as `:class:`silvan.Result``; only the last part of a name after a tilde.
ROLE = re.compile(r":[a-z]+:`(?:~(?:\w+\.)*)?([^`]+)`")
#: A dialogue with Python, up to an empty line.
DIALOGUE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class Markdown(Extension):
    """An extension of griffe that rewrites each docstring."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstrings of the objects in a package."""
        rewrite(obj.docstring)

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Rewrite the docstring of a top-level package."""
        rewrite(pkg.docstring)


def rewrite(docstring: Docstring | None) -> None:
    """Convert a docstring to Markdown, without marks of skipped doctests."""
    if docstring is not None:
        text = ROLE.sub(r"`\1`", docstring.value).replace("  # doctest: +SKIP", "")
        docstring.value = DIALOGUE.sub(r"```pycon\n\g<0>\n```", text)
