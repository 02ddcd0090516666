"""Builds examples of another commit in a separate work tree of Git, and keeps the build.

The files are in `target/against/<commit>`, so the files of the user's checkout do not change. `make clean`
removes this folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Number of lines shown of a failed command.
LINES_SHOWN = 12


class CannotCompareError(Exception):
    """There is no build with which to compare. The message states the reason."""


@dataclass(frozen=True)
class OtherBuild:
    """An example of another commit."""

    #: The commit, abbreviated.
    commit: str
    subject: str
    #: Its work tree.
    tree: Path
    program: Path

    @property
    def title(self) -> str:
        """The abbreviated commit with its subject."""
        return f"{self.commit} ({self.subject})"


def build(commit: str, example: str) -> OtherBuild:
    """Build `example` as it was at `commit`, in the release profile.

    Raises :class:`CannotCompareError` if there is no such commit, or if the example does not build.
    """
    name = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
    if name is None:
        raise CannotCompareError(f"no commit `{commit}` in this repository; `git log --oneline` lists them")
    short = name[:10]
    tree = ROOT / "target" / "against" / short
    _check_out(name, tree)
    subject = _git("log", "-1", "--format=%s", name) or ""
    target = tree / "target"
    program = target / "release" / "examples" / example
    print(f"Building `{example}` of {short} in {tree.relative_to(ROOT)} (the first time takes minutes) ...")
    sys.stdout.flush()
    command = [ROOT / "tools" / "with-rust", "cargo", "build", "--release", "--quiet"]
    done = subprocess.run(
        [*command, "-p", "silvan-scenario", "--example", example],
        cwd=tree,
        env={**os.environ, "CARGO_TARGET_DIR": str(target)},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise CannotCompareError(
            f"`{example}` of {short} ({subject}) does not build:\n{last_lines(done.stderr)}"
        )
    return OtherBuild(short, subject, tree, program)


def last_lines(text: str) -> str:
    """Return the last lines of a text, indented."""
    return "\n".join(f"  {line}" for line in text.strip().splitlines()[-LINES_SHOWN:])


def _check_out(name: str, tree: Path) -> None:
    if (tree / ".git").exists():
        return
    tree.parent.mkdir(parents=True, exist_ok=True)
    # Git still lists a work tree that `make clean` has removed, so `--force` is necessary.
    done = subprocess.run(
        ["git", "worktree", "add", "--force", "--detach", "--quiet", tree, name],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise CannotCompareError(f"git makes no work tree in {tree}:\n{last_lines(done.stderr)}")


def _git(*words: str) -> str | None:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None
