"""Adds the built site to a folder with the sites of several versions.

    python tools/site/versions.py FOLDER [SITE]

`make site` builds the site of the present version. This program copies the site, by default target/site/html,
to FOLDER/VERSION. On a web server, the theme reads FOLDER/versions.json and lets readers select a version.
FOLDER/index.html redirects to the newest version. The layout is that of the program mike, which uses a Git
branch instead of a folder.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HTML = ROOT / "target" / "site" / "html"
START = '<!doctype html><meta http-equiv="refresh" content="0; url={0}/"><a href="{0}/">Silvan {0}</a>\n'


def add(site: Path, folder: Path, version: str) -> list[str]:
    """Copy a site to the folder, and replace an earlier site of this version; return all versions.

    The newest version comes first. Raises `FileNotFoundError` if the site has no start page.
    """
    if not (site / "index.html").is_file():
        raise FileNotFoundError(f"{site}: no site; run `make site`")
    shutil.rmtree(folder / version, ignore_errors=True)
    shutil.copytree(site, folder / version)
    versions = sorted((path.parent.name for path in folder.glob("*/index.html")), key=order, reverse=True)
    listed = [{"version": name, "title": name, "aliases": []} for name in versions]
    (folder / "versions.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    (folder / "index.html").write_text(START.format(versions[0]), encoding="utf-8")
    return versions


def order(version: str) -> list[tuple[int, str]]:
    """Return the key by which versions are sorted: numbers by value, and other parts before numbers."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in version.split(".")]


def present() -> str:
    """Return the present version of Silvan, also where Silvan is not installed."""
    manifest = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    (version,) = re.findall(r'^version = "([^"]+)"', manifest, re.MULTILINE)
    return str(version)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python tools/site/versions.py FOLDER [SITE]")
    print(", ".join(add(Path(*sys.argv[2:]) if sys.argv[2:] else HTML, Path(sys.argv[1]), present())))
