"""Installs libsilvan, its header and its packages for pkg-config and CMake below a folder.

    python tools/install_library.py PREFIX [--built target/release]

`make capi PREFIX=...` builds the library and runs this program.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "crates" / "silvan-capi"


def abi(header: str) -> tuple[str, str]:
    """Return the major and the minor number of the interface in the header."""
    found = dict(re.findall(r"#define SILVAN_ABI_(\w+) (\d+)", header))
    return found["MAJOR"], found["MINOR"]


def install(prefix: Path, built: Path) -> None:
    """Install the library in the folder `built` below `prefix`."""
    libraries, include = prefix / "lib", prefix / "include"
    cmake, pkgconfig = libraries / "cmake" / "silvan", libraries / "pkgconfig"
    for folder in (include, cmake, pkgconfig):
        folder.mkdir(parents=True, exist_ok=True)
    major, minor = abi((SOURCES / "include" / "silvan.h").read_text(encoding="utf-8"))
    shutil.copy(SOURCES / "include" / "silvan.h", include)
    shutil.copy(built / "libsilvan.so", libraries / f"libsilvan.so.{major}")
    shutil.copy(built / "libsilvan.a", libraries)
    (libraries / "libsilvan.so").unlink(missing_ok=True)
    (libraries / "libsilvan.so").symlink_to(f"libsilvan.so.{major}")
    version = re.search(
        r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE
    )
    values = {"VERSION": version[1] if version else "", "ABI": f"{major}.{minor}", "ABI_MAJOR": major}
    for source in (SOURCES / "packaging").iterdir():
        text = re.sub(r"@(\w+)@", lambda name: values[name[1]], source.read_text(encoding="utf-8"))
        folder = pkgconfig if ".pc" in source.name else cmake
        (folder / source.name.removesuffix(".in")).write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("prefix", type=Path)
    parser.add_argument("--built", type=Path, default=ROOT / "target" / "release")
    given = parser.parse_args(arguments)
    install(given.prefix, given.built)


if __name__ == "__main__":
    main()
