"""Writes the hashes of all files of the pinned versions into lock files (`make lock`).

Change the versions in the lock files, and then run this program. It requests the hashes from the package
index through uv, with an old version of Python for lines that only apply to old versions.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = (
    "requirements.lock",
    "requirements-dev.lock",
    "requirements-site.lock",
    "requirements-release.lock",
)
#: A pinned version with its marker, without hashes.
PIN = re.compile(r"([\w.-]+)(\[[^\]]*\])?==([^\s;\\]+)\s*(;[^\\]*)?")
#: Versions of Python with which hashes are requested: for lines that apply to old versions, and for others.
OLD, RECENT = "3.10", "3.12"


def normal(name: str) -> str:
    """Return the normalized form of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requested(pins: Sequence[str], python: str) -> dict[tuple[str, str], list[str]]:
    """Return the hashes of pinned versions, by name and version; exits if uv fails."""
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "pins.txt"
        listed.write_text("".join(f"{pin}\n" for pin in pins), encoding="utf-8")
        options = ("--quiet", "--no-deps", "--generate-hashes", "--no-annotate", "--no-header")
        done = subprocess.run(
            ["uv", "pip", "compile", *options, "--python-version", python, str(listed)],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(done.stderr.strip())
    found: dict[tuple[str, str], list[str]] = {}
    latest: list[str] = []
    for line in done.stdout.splitlines():
        if pin := PIN.match(line):
            latest = found.setdefault((normal(pin[1]), pin[3]), [])
        latest += re.findall(r"--hash=(sha256:\w+)", line)
    return found


def with_hashes(lines: Iterable[str]) -> list[str]:
    """Return the lines of a lock file with the current hashes."""
    plain = [line.rstrip(" \\") for line in lines if not line.lstrip().startswith("--hash")]
    pins: dict[str, list[str]] = {OLD: [], RECENT: []}
    for line in plain:
        if pin := PIN.match(line):
            python = OLD if '< "3.11"' in (pin[4] or "") else RECENT
            pins[python].append(f"{pin[1]}=={pin[3]}")
    hashes: dict[tuple[str, str], list[str]] = {}
    for python, own in pins.items():
        hashes |= requested(own, python) if own else {}
    written = []
    for line in plain:
        pin = PIN.match(line)
        own = sorted(hashes[normal(pin[1]), pin[3]]) if pin else []
        written.append(" \\\n".join([line, *(f"    --hash={one}" for one in own)]))
    return written


def main() -> int:
    """Update all lock files; return the exit status."""
    if shutil.which("uv") is None:
        print("uv is needed: pip install uv", file=sys.stderr)
        return 1
    for name in LOCKS:
        path = ROOT / name
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("".join(f"{line}\n" for line in with_hashes(lines)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
