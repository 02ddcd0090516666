"""Checks the paths of fabrics before they are read. Messages suggest files with similar names."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from silvan import scenarios
from silvan._core import FabricError, Scenario

#: Files and folders of a fabric, such as `ibnetdiscover` output, OpenSM tables or link lists; also `.gz`.
Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


def files(paths: Paths) -> list[Path]:
    """Return the files and folders of a fabric.

    Raises `FabricError` if a path does not exist or is a scenario.
    """
    found = [Path(path) for path in _listed(paths)]
    for path in found:
        if (shipped := _shipped(path)) is None:
            _exists(path)
        if shipped is not None or path.suffix == ".toml":
            raise FabricError(_of_scenario(path, shipped or path))
    return found


def files_or_scenario(paths: Paths) -> list[Path]:
    """Return the files and folders of a fabric, or the file of a scenario.

    A scenario that comes with Silvan may be given by its name. Raises `FabricError` if a path does not exist.
    """
    found = [Path(path) for path in _listed(paths)]
    if len(found) == 1:
        found = [_shipped(found[0]) or found[0]]
    for path in found:
        _exists(path)
    return found


def _of_scenario(path: Path, file: Path) -> str:
    division = Scenario.load(file).check().get("choice")
    tables = f", without `{division}`, which no table can contain" if division else ""
    return (
        f"{path}: is a scenario, not a fabric. This command writes its network and its forwarding "
        f"tables{tables}, as files of a fabric: silvan fabric route {path} --network wiring.topo "
        "--out routes.lft"
    )


def _listed(paths: Paths) -> Sequence[str | PathLike[str]]:
    return [paths] if isinstance(paths, (str, PathLike)) else paths


def _shipped(path: Path) -> Path | None:
    """Return the file of the scenario with this name that comes with Silvan.

    None if there is no such scenario, or if `path` exists.
    """
    if os.path.lexists(path):
        return None
    named = {one.name: one.path for one in scenarios.listed() if one.kind == "scenario"}
    return named.get(str(path))


def _exists(path: Path) -> None:
    if os.path.lexists(path):
        return
    try:
        here = [one.name for one in path.parent.iterdir()]
    except OSError:
        here = []
    near = difflib.get_close_matches(path.name, here, n=2)
    hint = f"did you mean {' or '.join(f'`{path.with_name(name)}`' for name in near)}? " if near else ""
    examples = "`silvan fabric examples` copies fabrics to try the commands with"
    raise FabricError(f"{path}: no such file or folder; {hint}{examples}")
