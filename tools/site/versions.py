"""Adds the built site to a folder with the sites of several versions.

    python tools/site/versions.py FOLDER

`make site` builds the site of the present version. This program copies the site to FOLDER/VERSION. On a web
server, the theme reads FOLDER/versions.json and lets readers select a version. FOLDER/index.html redirects to
the newest version. The layout is that of the program mike, which uses a Git branch instead of a folder.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import silvan

HTML = Path(__file__).resolve().parents[2] / "target" / "site" / "html"
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


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tools/site/versions.py FOLDER")
    print(", ".join(add(HTML, Path(sys.argv[1]), silvan.__version__)))
