"""Makes Markdown of docstrings: references become plain code, and what follows ``>>>`` a block."""

import re
from typing import Any

from griffe import Docstring, Extension, Module, Object

#: `:class:`silvan.Result`` and the like; of `~silvan.Result` the last part.
ROLE = re.compile(r":[a-z]+:`(?:~(?:\w+\.)*)?([^`]+)`")
#: A dialogue with Python, up to an empty line.
DIALOGUE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class Markdown(Extension):
    """Rewrites each docstring once all are read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstrings of the objects in a package."""
        rewrite(obj.docstring)

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Rewrite the docstring of a package, which is in none."""
        rewrite(pkg.docstring)


def rewrite(docstring: Docstring | None) -> None:
    """Replace the text of a docstring."""
    if docstring is not None:
        text = ROLE.sub(r"`\1`", docstring.value).replace("  # doctest: +SKIP", "")
        docstring.value = DIALOGUE.sub(r"```pycon\n\g<0>\n```", text)
