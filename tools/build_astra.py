"""Builds ASTRA-sim with a network of Silvan, from a checkout of ASTRA-sim.

    python tools/build_astra.py CHECKOUT [--check] [--out target/astra]

`make astra ASTRA=CHECKOUT` builds the library and runs this program. `--check` only looks for what the build
needs. The program is `AstraSim_Silvan` in the folder of `--out`. Nothing is written to the checkout.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ADAPTER = ROOT / "crates" / "silvan-capi" / "astra"
#: A file of ASTRA-sim itself, and one of each of its submodules that the build needs.
INTERFACE = "astra-sim/common/AstraNetworkAPI.hh"
SUBMODULES = {
    "extern/graph_frontend/chakra": "schema/protobuf/et_def.proto",
    "extern/remote_memory_backend/analytical": "AnalyticalRemoteMemory.hh",
    "extern/helper/fmt": "CMakeLists.txt",
    "extern/helper/spdlog": "CMakeLists.txt",
}
#: Programs, and the packages of Debian that contain them.
PROGRAMS = {
    "cmake": "cmake",
    "c++": "g++",
    "protoc": "protobuf-compiler libprotobuf-dev",
}


def missing(checkout: Path) -> list[str]:
    """Return what the build needs and cannot find, one sentence each."""
    if not (checkout / INTERFACE).is_file():
        return [
            f"{checkout} is not a checkout of ASTRA-sim, because it has no file {INTERFACE}; "
            "name its folder: make astra ASTRA=CHECKOUT"
        ]
    found = []
    empty = [name for name, file in SUBMODULES.items() if not (checkout / name / file).is_file()]
    if empty:
        command = f"git -C {checkout} submodule update --init {' '.join(empty)}"
        found.append(f"submodules of {checkout} are empty; fill them: {command}")
    packages = [package for program, package in PROGRAMS.items() if not shutil.which(program)]
    if packages:
        found.append(f"programs are missing; install them (Debian, Ubuntu): apt install {' '.join(packages)}")
    return found


def build(checkout: Path, out: Path) -> Path:
    """Build the program with the library that is installed in `out/silvan`; return its path."""
    folder = out / "build"
    if is_for_another(folder, checkout):
        shutil.rmtree(folder)
    prefix = f"-DCMAKE_PREFIX_PATH={out / 'silvan'}"
    configure = ["cmake", "-S", str(ADAPTER), "-B", str(folder), f"-DASTRA={checkout}", prefix]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    jobs = str(os.cpu_count() or 1)
    command = ["cmake", "--build", str(folder), "--parallel", jobs, "--target", "AstraSim_Silvan"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return Path(shutil.copy(folder / "AstraSim_Silvan", out))


def is_for_another(folder: Path, checkout: Path) -> bool:
    """Return whether a build folder is for another checkout."""
    cache = folder / "CMakeCache.txt"
    return cache.is_file() and f"ASTRA:PATH={checkout}\n" not in cache.read_text(encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out", type=Path, default=ROOT / "target" / "astra")
    given = parser.parse_args(arguments)
    if not given.checkout:
        print("name a checkout of ASTRA-sim: make astra ASTRA=CHECKOUT", file=sys.stderr)
        return 2
    checkout = Path(given.checkout).expanduser().resolve()
    if problems := missing(checkout):
        print("\n".join(problems), file=sys.stderr)
        return 2
    if given.check:
        return 0
    try:
        program = build(checkout, given.out.resolve())
    except subprocess.CalledProcessError as error:
        print(f"the build failed: {' '.join(error.cmd)}", file=sys.stderr)
        return 1
    print(f"built {program}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
