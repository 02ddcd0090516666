"""Copies the fabrics that come with Silvan."""

from __future__ import annotations

import errno
import os
import shutil
from os import PathLike
from pathlib import Path

_SHIPPED = Path(__file__).parents[1] / "shipped" / "tests" / "data" / "fabrics"
#: Maps the names of fabrics to folders with the files of OpenSM and ibnetdiscover.
_FOLDERS = {
    "sw2-h7": "sw2-h7/minhop",
    "4ary3tree-h64": "4ary3tree-h64/ftree",
    "ft2-36p-h648": "ft2-36p-h648/ftree",
}
_FILES = ("ibnetdiscover.topo", "opensm-lfts.dump")


def examples(folder: str | PathLike[str] = "fabrics") -> list[Path]:
    """Copy the fabrics that come with Silvan to a folder; return the folder of each fabric.

    Raises `FileExistsError` before anything is written if one of these folders exists.
    """
    paths = {name: Path(folder) / name for name in _FOLDERS}
    for path in paths.values():
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, "already exists; choose another folder", str(path))
    for name, path in paths.items():
        path.mkdir(parents=True)
        for file in _FILES:
            for source in (_SHIPPED / _FOLDERS[name]).glob(f"{file}*"):
                shutil.copyfile(source, path / source.name)
    return list(paths.values())
