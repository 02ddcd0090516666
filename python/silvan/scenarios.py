"""The scenarios and studies that come with Silvan, in a clone as in an installed package.

>>> from silvan import scenarios
>>> scenarios.find("testbed").kind
'scenario'
"""

from __future__ import annotations

import difflib
import errno
import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from silvan import _files
from silvan._core import SilvanError

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

#: In a clone these are links to folders of the repository; an installed package has the files.
_SHIPPED = Path(__file__).parent / "shipped"
_FOLDERS = {"scenarios": "scenario", "studies": "study"}
#: No path in a scenario is longer; texts may be.
_PATH_AT_MOST = 255


@dataclass(frozen=True)
class Shipped:
    """A scenario or study that comes with Silvan."""

    name: str
    #: ``scenario`` (for ``silvan run``) or ``study`` (for ``silvan sweep``).
    kind: str
    description: str
    path: Path


def folder(name: str) -> Path:
    """Return a folder that comes with the package, such as ``papers``; raises `SilvanError`."""
    found = (_SHIPPED / name).resolve()
    if not found.is_dir():
        raise SilvanError(
            f"{_SHIPPED / name}: no folder; this package is not whole: install it again "
            "(in a clone: check it out where git makes symbolic links)"
        )
    return found


def listed() -> list[Shipped]:
    """Return all scenarios, then all studies, by name."""
    return [
        Shipped(path.stem, kind, str(_parsed(path).get("description", "")), path)
        for name, kind in _FOLDERS.items()
        for path in sorted(folder(name).glob("*.toml"))
    ]


def find(name: str) -> Shipped:
    """Return a scenario or study by its name; raises `SilvanError` with names that are near."""
    found = {one.name: one for one in listed()}
    name = name.removesuffix(".toml")
    if name not in found:
        near = difflib.get_close_matches(name, found, n=3) or found
        raise SilvanError(f"no scenario or study `{name}` comes with Silvan; there are {', '.join(near)}")
    return found[name]


def copy(name: str, target: str | os.PathLike[str] = ".") -> list[Path]:
    """Copy a scenario or study, with the files that it names, into a folder; return paths, its own first.

    Paths in the copies lead to the copies. The folder is made if need be. Nothing is replaced: raises
    `FileExistsError` before anything is written.
    """
    into = Path(target)
    texts: dict[Path, str | None] = dict(_with_files(find(name).path))
    paths = [into / source.name for source in texts]
    for path in paths:
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, "is there already; choose another folder", str(path))
    into.mkdir(parents=True, exist_ok=True)
    for (source, text), path in zip(texts.items(), paths, strict=True):
        if text is None:
            shutil.copyfile(source, path)
        else:
            _files.write_text(path, text)
    return paths


def _with_files(path: Path) -> Iterator[tuple[Path, str | None]]:
    """Yield a file and those that it names, at any remove: the text of a copy, None where it is the same."""
    if path.suffix != ".toml":
        yield path, None
        return
    text, named = _files.read_text(path), []
    for value in sorted(set(_texts(_parsed(path)))):
        if len(value) <= _PATH_AT_MOST and (path.parent / value).is_file():
            named.append((path.parent / value).resolve())
            text = text.replace(json.dumps(value), json.dumps(named[-1].name))
    yield path, text
    for file in named:
        yield from _with_files(file)


def _parsed(path: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = tomllib.loads(_files.read_text(path))
    return parsed


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
