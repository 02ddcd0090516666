"""Finds the scenarios and studies that come with Silvan, in a clone or in an installed package.

>>> from silvan import scenarios
>>> scenarios.find("testbed").kind
'scenario'
>>> scenarios.load("testbed", {"seed": 7}).seed
7
"""

from __future__ import annotations

import difflib
import errno
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from silvan import _files
from silvan._core import Scenario, ScenarioError, SilvanError

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

Kind = Literal["scenario", "study"]

#: In a clone, this folder contains links to folders of the repository; an installed package contains the
#: files.
_SHIPPED = Path(__file__).parent / "shipped"
_FOLDERS: Mapping[str, Kind] = {"scenarios": "scenario", "studies": "study"}
_COMMANDS: Mapping[Kind, str] = {"scenario": "silvan run", "study": "silvan sweep"}
#: Strings in a scenario with more characters are not paths.
_PATH_AT_MOST = 255


@dataclass(frozen=True)
class Shipped:
    """A scenario or study that comes with Silvan."""

    name: str
    #: ``scenario`` (for ``silvan run``) or ``study`` (for ``silvan sweep``).
    kind: Kind
    #: The key `description` of the file; empty if the file does not contain this key.
    description: str
    path: Path


def folder(name: str) -> Path:
    """Return a folder of the package, such as ``papers``; raises `SilvanError` if it is missing."""
    found = (_SHIPPED / name).resolve()
    if not found.is_dir():
        raise SilvanError(
            f"{_SHIPPED / name}: no such folder; the package is incomplete: install it again "
            "(a clone needs a file system with symbolic links)"
        )
    return found


def listed() -> list[Shipped]:
    """Return all scenarios, then all studies, sorted by name."""
    return [
        Shipped(path.stem, kind, str(_parsed(path).get("description", "")), path)
        for kind, path in _files_of_all()
    ]


def _files_of_all() -> Iterator[tuple[Kind, Path]]:
    for name, kind in _FOLDERS.items():
        for path in sorted(folder(name).glob("*.toml")):
            yield kind, path


def find(name: str) -> Shipped:
    """Return a scenario or study by its name. For an unknown name, the `SilvanError` lists similar names."""
    found = {one.name: one for one in listed()}
    name = name.removesuffix(".toml")
    if name not in found:
        near = difflib.get_close_matches(name, found, n=3) or found
        raise SilvanError(f"no scenario or study `{name}` comes with Silvan; there are {', '.join(near)}")
    return found[name]


def load(scenario: str | os.PathLike[str], overrides: Mapping[str, Any] | None = None) -> Scenario:
    """Load a scenario from a file, or by the name of one that comes with Silvan.

    `overrides` maps dotted keys to values. A file takes precedence over a name. Raises
    :class:`silvan.ScenarioError` if the scenario is invalid, or if there is no such file or name. The message
    then suggests similar names.
    """
    return Scenario.load(locate(scenario), None if overrides is None else dict(overrides))


def from_toml(text: str, origin: str, overrides: Mapping[str, Any] | None = None) -> Scenario:
    """Read a scenario from text; relative file names in it are relative to the current folder.

    Raises :class:`silvan.ScenarioError` if the scenario is invalid.
    """
    return Scenario.from_toml(text, origin=origin, overrides=None if overrides is None else dict(overrides))


def locate(name: str | os.PathLike[str], kind: Kind = "scenario") -> Path:
    """Return the path of a file, or of a scenario or study with this name that comes with Silvan.

    A file takes precedence over a name, and a name over a folder. Raises :class:`silvan.ScenarioError` if
    `name` is only the folder of a run. The error is also raised if nothing has this name, and its message
    then suggests similar names.
    """
    path = Path(name)
    if os.path.lexists(path) and not path.is_dir():
        return path
    # Read only the file names, because parsing all files is slow.
    shipped = {path.stem: (one, path) for one, path in _files_of_all()}
    found = shipped.get(str(name).removesuffix(".toml"))
    if found is not None and found[0] == kind:
        return found[1]
    if os.path.lexists(path):
        if (own := path / "scenario.toml").is_file():
            raise ScenarioError(f"{path}: is the folder of a run; its scenario is {own}")
        return path
    raise ScenarioError(f"{path}: no such file; {_instead(path, kind, shipped)}")


def _instead(path: Path, kind: Kind, shipped: Mapping[str, tuple[Kind, Path]]) -> str:
    """Return a hint about files with names similar to that of a file that does not exist."""
    if path.stem in shipped:
        own_kind = shipped[path.stem][0]
        return (
            f"the {own_kind} `{path.stem}` comes with Silvan: {_COMMANDS[own_kind]} {path.stem}, "
            f"or silvan scenarios copy {path.stem}"
        )
    try:
        here = {file.name: str(file) for file in path.parent.glob("*.toml")}
    except (OSError, ValueError):
        here = {}
    own = {name: name for name, (own_kind, _) in shipped.items() if own_kind == kind}
    near = difflib.get_close_matches(path.name, here, n=2) + difflib.get_close_matches(path.stem, own, n=2)
    meant = [f"`{(here | own)[name]}`" for name in near]
    hint = f"did you mean {' or '.join(meant)}? " if meant else ""
    return f"{hint}silvan scenarios list shows those that come with Silvan"


def copy(name: str, target: str | os.PathLike[str] = ".") -> list[Path]:
    """Copy a scenario or study and the files that it names to a folder, and return the paths of the copies.

    The first path is that of the scenario or study. Paths in the copies refer to the copies. The folder is
    created if necessary. Raises `FileExistsError` before anything is written if a file would be replaced, and
    `SilvanError` for an unknown name.
    """
    into = Path(target)
    texts: dict[Path, str | None] = dict(_with_files(find(name).path))
    paths = [into / source.name for source in texts]
    for path in paths:
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, "already exists; choose another folder", str(path))
    into.mkdir(parents=True, exist_ok=True)
    for (source, text), path in zip(texts.items(), paths, strict=True):
        if text is None:
            shutil.copyfile(source, path)
        else:
            _files.write_text(path, text)
    return paths


def _with_files(path: Path) -> Iterator[tuple[Path, str | None]]:
    """Yield a file and all files that it names, recursively, each with the text of its copy.

    The text is None for a file that is copied without changes.
    """
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
