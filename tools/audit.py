"""Checks the locked crates and Python packages for known security advisories (`make audit`).

The program calls cargo-audit for Cargo.lock and fuzz/Cargo.lock, and pip-audit for the lock files of Python.
It fails if one of them is not installed, or cannot look up a package. `tools/audit.toml` lists advisories
that do not concern Silvan, with reasons and dates.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
EXCEPTIONS = ROOT / "tools" / "audit.toml"
CRATES = ("Cargo.lock", "fuzz/Cargo.lock")
PACKAGES = (
    "requirements.lock",
    "requirements-dev.lock",
    "requirements-site.lock",
    "requirements-release.lock",
    "requirements-rustup.lock",
)


class AuditError(Exception):
    """The list of exceptions is not valid."""


def exceptions(table: Mapping[str, Any], today: date) -> list[str]:
    """Return the accepted advisories; raises :class:`AuditError` for an invalid or outdated exception."""
    accepted = []
    for number, one in enumerate(table.get("exception", ()), 1):
        if not isinstance(one, dict) or set(one) != {"id", "reason", "until"}:
            raise AuditError(f"exception {number}: needs `id`, `reason` and `until`, and nothing else")
        if not isinstance(one["until"], date) or not str(one["reason"]).strip():
            raise AuditError(f"exception {number}: needs a reason, and a date such as 2027-01-31")
        if one["until"] < today:
            raise AuditError(f"{one['id']}: the exception ended on {one['until']}; check it again")
        accepted.append(str(one["id"]))
    return accepted


def commands(accepted: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return a program and its command line for each lock file."""
    rust = [option for one in accepted if one.startswith("RUSTSEC-") for option in ("--ignore", one)]
    python = [
        option for one in accepted if not one.startswith("RUSTSEC-") for option in ("--ignore-vuln", one)
    ]
    found = [
        ("cargo-audit", ["cargo-audit", "audit", "--deny", "warnings", "--file", lock, *rust])
        for lock in CRATES
    ]
    for lock in PACKAGES:
        # Without `--strict`, a package that cannot be looked up is skipped.
        arguments = [
            "pip-audit",
            "--strict",
            "--disable-pip",
            "--require-hashes",
            "--requirement",
            lock,
            *python,
        ]
        found.append(("pip-audit", arguments))
    return found


def main() -> int:
    """Run the checks; return the exit status."""
    try:
        table = tomllib.loads(EXCEPTIONS.read_text(encoding="utf-8"))
        accepted = exceptions(table, date.today())
    except (AuditError, ValueError) as error:
        print(f"{EXCEPTIONS.relative_to(ROOT)}: {error}", file=sys.stderr)
        return 1
    status = 0
    missing = set()
    for program, arguments in commands(accepted):
        if shutil.which(program) is None:
            missing.add(program)
            continue
        status |= subprocess.run(arguments, cwd=ROOT, check=False).returncode != 0
    for program in sorted(missing):
        print(f"not audited: {program} is not installed", file=sys.stderr)
    return int(status or bool(missing))


if __name__ == "__main__":
    sys.exit(main())
