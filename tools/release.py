"""Gathers and checks the files of a release: wheels, sources, crates, site, notes, SBOM, checksums.

    python tools/release.py [--final] [--all-platforms] [--out target/release-files]

`make release-check` builds the wheel and the site first. Without `--final`, this is a dry run: the changelog
may call the version unreleased, and a wheel may be for this machine only. Everything else is checked in the
same way. With `--all-platforms`, there must be a wheel for each platform of `PLATFORMS`, as in
.github/workflows/release.yml.

Exit status: 0 if the files are complete and correct; otherwise 1, with a message.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import uuid
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: Crates that can be published, in the order of their dependencies.
CRATES = (
    "silvan-derive",
    "silvan-engine",
    "silvan-trace",
    "silvan-network",
    "silvan-congestion",
    "silvan-fabric",
    "silvan-delays",
    "silvan-import",
    "silvan-scenario",
    "silvan-library",
)


@dataclass(frozen=True)
class Platform:
    """A platform for which releases have a wheel."""

    name: str
    #: Tags of its wheels; those of Linux contain the oldest glibc with which they work.
    tag: str
    #: Extension module, its first bytes, and the place and the bytes of the type of processor after these.
    module: str
    magic: bytes
    at: int
    machine: bytes

    def describes(self, binary: bytes) -> bool:
        """Return whether a file is a shared library for this platform."""
        # The header of a Windows library is at an offset that the first header contains.
        at = int.from_bytes(binary[0x3C:0x40], "little") + 4 if self.magic == b"MZ" else self.at
        return binary.startswith(self.magic) and binary[at:].startswith(self.machine)


_ELF, _MACH_O = b"\x7fELF\x02", b"\xcf\xfa\xed\xfe"
_UNIX, _WINDOWS = "silvan/_core.abi3.so", "silvan/_core.pyd"
PLATFORMS = (
    Platform("Linux x86_64", r"(manylinux\w*|linux)_x86_64", _UNIX, _ELF, 18, b"\x3e\0"),
    Platform("Linux aarch64", r"(manylinux\w*|linux)_aarch64", _UNIX, _ELF, 18, b"\xb7\0"),
    Platform("macOS x86_64", r"macosx_\d+_\d+_x86_64", _UNIX, _MACH_O, 4, b"\x07\0\0\x01"),
    Platform("macOS arm64", r"macosx_\d+_\d+_arm64", _UNIX, _MACH_O, 4, b"\x0c\0\0\x01"),
    Platform("Windows x86_64", "win_amd64", _WINDOWS, b"MZ", 0, b"\x64\x86"),
)
#: Prefixes of the names of libraries that a manylinux wheel may need (PEP 600).
ALLOWED = (
    "libc.so.6",
    "libm.so.6",
    "libgcc_s.so.1",
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "ld-linux",
)
#: The time stamp of compressed archives, which is constant so that equal files give equal bytes.
EPOCH = 315_532_800
NOTES, SBOM, SUMS = "NOTES.md", "sbom.cdx.json", "SHA256SUMS"


class ReleaseError(Exception):
    """The files must not be released. The message states the reason."""


def version() -> str:
    """Return the version of the workspace; raises :class:`ReleaseError` if a crate needs another version."""
    manifest = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    found = re.search(r'^version = "([^"]+)"', manifest, re.MULTILINE)
    if found is None:
        raise ReleaseError("Cargo.toml: no version")
    wrong = [
        one for one in re.findall(r'path = "crates/[^"]+", version = "([^"]+)"', manifest) if one != found[1]
    ]
    if wrong:
        raise ReleaseError(
            f"Cargo.toml: a crate of the workspace is needed in version {wrong[0]}, not {found[1]}"
        )
    return found[1]


def notes(text: str, wanted: str, *, final: bool) -> str:
    """Return the section of the changelog about a version.

    Raises :class:`ReleaseError` if the first section is about another version, is empty, or has no date (only
    with `final`).
    """
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    if not sections or not sections[0].startswith(f"{wanted},"):
        raise ReleaseError(f"CHANGELOG.md: the first section is not that of {wanted}")
    heading, _, body = sections[0].partition("\n")
    date = heading.partition(",")[2].strip()
    if final and not re.fullmatch(r"\d{4}-\d{2}-\d{2}", date):
        raise ReleaseError(f"CHANGELOG.md: the section of {wanted} is dated `{date}`; write YYYY-MM-DD")
    if not body.strip():
        raise ReleaseError(f"CHANGELOG.md: the section of {wanted} is empty")
    return f"# Silvan {wanted}\n\n{body.strip()}\n"


def needed_libraries(binary: bytes) -> list[str]:
    """Return the shared libraries that a 64-bit ELF file needs; raises :class:`ReleaseError` for others."""
    if binary[:5] != b"\x7fELF\x02":
        raise ReleaseError("the extension module is not an ELF file of 64 bits")
    offset, size, count = (*struct.unpack_from("<Q", binary, 32), *struct.unpack_from("<HH", binary, 54))
    heads = [struct.unpack_from("<IIQQQQQQ", binary, offset + at * size) for at in range(count)]
    loads = [(head[3], head[2], head[5]) for head in heads if head[0] == 1]
    dynamic = next(head for head in heads if head[0] == 2)
    entries = [struct.unpack_from("<QQ", binary, dynamic[2] + at) for at in range(0, dynamic[5], 16)]
    strings = next(value for tag, value in entries if tag == 5)
    at = next(strings - place + offset for place, offset, size in loads if place <= strings < place + size)
    names = [binary[at + value :] for tag, value in entries if tag == 1]
    return [name[: name.index(b"\0")].decode() for name in names]


def platform_of(name: str) -> Platform:
    """Return the platform of a wheel by its file name; raises :class:`ReleaseError` for another one."""
    tags = name.removesuffix(".whl").rpartition("-")[2].split(".")
    for platform in PLATFORMS:
        if all(re.fullmatch(platform.tag, tag) for tag in tags):
            return platform
    known = ", ".join(platform.name for platform in PLATFORMS)
    raise ReleaseError(f"{name}: is for none of the platforms {known}")


def check_wheel(path: Path, wanted: str, *, final: bool) -> str:
    """Check the name, version, license, processor and shared libraries of a wheel; return a line about it.

    Raises :class:`ReleaseError` if something is wrong.
    """
    name = re.fullmatch(r"silvan-([^-]+)-(cp3\d+)-abi3-(.+)\.whl", path.name)
    if name is None:
        raise ReleaseError(f"{path.name}: not a wheel for the stable interface of Python (abi3)")
    if name[1] != wanted:
        raise ReleaseError(f"{path.name}: is version {name[1]}, not {wanted}")
    platform = platform_of(path.name)
    with zipfile.ZipFile(path) as wheel:
        modules = [one for one in wheel.namelist() if one.endswith((".so", ".pyd"))]
        if modules != [platform.module]:
            raise ReleaseError(f"{path.name}: its extension modules are {', '.join(modules) or 'missing'}")
        if not any(one.endswith(".dist-info/licenses/LICENSE") for one in wheel.namelist()):
            raise ReleaseError(f"{path.name}: has no license")
        binary = wheel.read(modules[0])
    if not platform.describes(binary):
        raise ReleaseError(f"{path.name}: its extension module is not one for {platform.name}")
    about = f"{name[2]} and newer, {name[3]}"
    return about + (check_linux(path.name, name[3], binary, final=final) if platform.magic == _ELF else "")


def check_linux(name: str, tag: str, binary: bytes, *, final: bool) -> str:
    """Check the libraries and the glibc that an extension module for Linux needs; return words about them.

    Raises :class:`ReleaseError` if something is wrong.
    """
    strange = [one for one in needed_libraries(binary) if not one.startswith(ALLOWED)]
    if strange:
        raise ReleaseError(f"{name}: needs {', '.join(strange)}, which not every system has")
    needs = max((int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", binary)), default=0)
    tags = [int(minor) for minor in re.findall(r"manylinux_2_(\d+)", tag)]
    if tags and needs > min(tags):
        raise ReleaseError(f"{name}: needs glibc 2.{needs}, newer than its tag says")
    if final and not tags:
        raise ReleaseError(
            f"{name}: is for this machine only (it needs glibc 2.{needs}); build it with "
            "`make wheel-manylinux`"
        )
    return f", glibc 2.{needs}"


def check_sources(path: Path) -> str:
    """Check that a build from the source archive uses the locked versions of crates; return a line about it.

    The archive lacks some crates of the workspace, so cargo writes its lock file again, and would add newest
    versions of missing packages. Raises :class:`ReleaseError` if the new lock file has other packages.
    """
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")
        (root,) = Path(folder).iterdir()
        before = _locked((root / "Cargo.lock").read_text(encoding="utf-8"))
        command = [ROOT / "tools/with-rust", "cargo", "metadata", "--format-version", "1", "--quiet"]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ReleaseError(f"{path.name}: cargo metadata: {done.stderr.strip()}")
        after = _locked((root / "Cargo.lock").read_text(encoding="utf-8"))
    if other := sorted(after - before):
        listed = ", ".join(" ".join(one) for one in other)
        raise ReleaseError(f"{path.name}: its lock file lacks {listed}, so a build could use other versions")
    return f"{len(after)} locked crates"


def _locked(text: str) -> set[tuple[str, str]]:
    """Return the names and versions of the packages in a lock file of cargo."""
    return set(re.findall(r'^name = "([^"]+)"\nversion = "([^"]+)"', text, re.MULTILINE))


def check_citation(text: str, wanted: str, heading: str, *, final: bool) -> None:
    """Check the version and the date in CITATION.cff; `heading` is that of the version in the changelog.

    Raises :class:`ReleaseError` if they differ from the changelog. Without `final`, there may be no date.
    """
    found = dict(re.findall(r"^(version|date-released): [\"']?([^\"'\n]+)", text, re.MULTILINE))
    if found.get("version") != wanted:
        raise ReleaseError(f"CITATION.cff: is version {found.get('version')}, not {wanted}")
    date = heading.partition(",")[2].strip()
    if (final or "date-released" in found) and found.get("date-released") != date:
        raise ReleaseError(
            f"CITATION.cff: date-released is {found.get('date-released', 'missing')}, and the changelog says "
            f"{date}"
        )


def package_crates(out: Path) -> list[Path]:
    """Package the crates as `cargo publish` would, and return the files.

    Raises :class:`ReleaseError` if cargo fails, or if a package lacks files.
    """
    names = [word for crate in CRATES for word in ("-p", crate)]
    command = [
        "tools/with-rust",
        "cargo",
        "package",
        "--no-verify",
        "--allow-dirty",
        "--locked",
        "--quiet",
        *names,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"cargo package: {done.stderr.strip()[-2000:]}")
    made = [ROOT / "target" / "package" / f"{crate}-{version()}.crate" for crate in CRATES]
    for path in made:
        with tarfile.open(path) as crate:
            files = {Path(*Path(name).parts[1:]).as_posix() for name in crate.getnames()}
        if not {"Cargo.toml", "Cargo.lock", "src/lib.rs"} <= files:
            raise ReleaseError(f"{path.name}: lacks its manifest or its source")
    return [shutil.copy2(path, out) for path in made]


def pack_site(out: Path) -> Path:
    """Pack the site; equal pages give equal bytes. Raises :class:`ReleaseError` if there is no site."""
    pages = ROOT / "target" / "site" / "html"
    if not (pages / "index.html").is_file():
        raise ReleaseError(f"{pages}: no site; run `make site`")
    target = out / f"silvan-{version()}-site.tar.gz"
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(pages.rglob("*")):
            info = archive.gettarinfo(path, f"silvan-{version()}-site/{path.relative_to(pages).as_posix()}")
            info.uid = info.gid = info.mtime = 0
            info.uname = info.gname = ""
            info.mode = 0o755 if path.is_dir() else 0o644
            with path.open("rb") if path.is_file() else io.BytesIO() as file:
                archive.addfile(info, file if path.is_file() else None)
    target.write_bytes(gzip.compress(content.getvalue(), mtime=EPOCH))
    return target


def sbom() -> dict[str, Any]:
    """Return the components of the wheel and the packages that it installs, as CycloneDX 1.5.

    Raises :class:`ReleaseError` if cargo fails.
    """
    command = ["tools/with-rust", "cargo", "metadata", "--format-version", "1", "--locked"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"cargo metadata: {done.stderr.strip()}")
    data = json.loads(done.stdout)
    packages = {one["id"]: one for one in data["packages"]}
    nodes = {one["id"]: one for one in data["resolve"]["nodes"]}
    start = next(key for key, one in packages.items() if one["name"] == "silvan-python")
    found, following = {start}, [start]
    while following:
        for other in nodes[following.pop()]["deps"]:
            # Packages that only tests need are not in the wheel.
            if other["pkg"] not in found and any(kind["kind"] != "dev" for kind in other["dep_kinds"]):
                found.add(other["pkg"])
                following.append(other["pkg"])
    line = r'name = "([^"]+)"\nversion = "([^"]+)"\nsource = [^\n]+\nchecksum = "(\w+)"'
    sums = {(name, number): digest for name, number, digest in re.findall(line, _lock())}
    crates = [
        _crate(packages[key], sums) for key in sorted(found - {start}, key=lambda key: packages[key]["name"])
    ]
    found_packages = _python_packages()
    components = [*crates, *(one.component() for one in found_packages)]
    purls = {key: f"pkg:cargo/{packages[key]['name']}@{packages[key]['version']}" for key in found}
    used_by = {
        purls[key]: sorted({purls[other["pkg"]] for other in nodes[key]["deps"] if other["pkg"] in found})
        for key in found - {start}
    }
    used_by |= {one.purl: one.depends_on(found_packages) for one in found_packages}
    top = f"pkg:pypi/silvan@{version()}"
    direct = {other["pkg"] for other in nodes[start]["deps"] if other["pkg"] in found}
    needed = _direct()
    used_by[top] = sorted(
        [*(purls[key] for key in direct), *(one.purl for one in found_packages if one.key in needed)]
    )
    seed = json.dumps(components, sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, seed)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application", "name": "silvan", "version": version(),
                "purl": top, "bom-ref": top,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components,
        "dependencies": [{"ref": ref, "dependsOn": others} for ref, others in sorted(used_by.items())],
    }  # fmt: skip


def _lock() -> str:
    return (ROOT / "Cargo.lock").read_text(encoding="utf-8")


def _crate(package: dict[str, Any], sums: dict[tuple[str, str], str]) -> dict[str, Any]:
    name, number = package["name"], package["version"]
    one: dict[str, Any] = {
        "type": "library", "name": name, "version": number, "purl": f"pkg:cargo/{name}@{number}",
        "bom-ref": f"pkg:cargo/{name}@{number}",
        "licenses": [{"expression": package["license"] or "NOASSERTION"}],
    }  # fmt: skip
    if (name, number) in sums:
        one["hashes"] = [{"alg": "SHA-256", "content": sums[name, number]}]
    return one


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True)
class _Package:
    """A pinned Python package that the wheel needs."""

    name: str
    version: str
    #: Normalized names of the packages that this package needs.
    needs: frozenset[str]
    license: str
    hashes: tuple[str, ...]

    @property
    def key(self) -> str:
        return _normal(self.name)

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.key}@{self.version}"

    def depends_on(self, others: Sequence[_Package]) -> list[str]:
        return sorted(one.purl for one in others if one.key in self.needs)

    def component(self) -> dict[str, Any]:
        """Return the component, with the hashes of all files of the package as properties."""
        return {
            "type": "library", "name": self.name, "version": self.version, "scope": "required",
            "purl": self.purl, "bom-ref": self.purl, "licenses": [{"license": {"name": self.license}}],
            "properties": [{"name": "silvan:file:sha256", "value": one} for one in self.hashes],
        }  # fmt: skip


def _direct() -> set[str]:
    """Return the normalized names of the direct dependencies in pyproject.toml."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = project.partition("\ndependencies = [")[2].partition("\n]")[0]
    return {_normal(name) for name in re.findall(r'^\s*"([\w.-]+)', listed, re.MULTILINE)}


def _facts(name: str) -> tuple[frozenset[str], str]:
    """Return the packages that an installed package needs, and its license."""
    try:
        data = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return frozenset(), "NOASSERTION"  # needed only by another version of Python
    needs = [one for one in metadata.requires(name) or [] if "extra ==" not in one]
    names = (re.match(r"[\w.-]+", one) for one in needs)
    classifiers = [one.rpartition(" :: ")[2] for one in data.get_all("Classifier") or () if "License" in one]
    stated = data.get("License-Expression") or ", ".join(classifiers) or (data.get("License") or "").strip()
    first = stated.splitlines()[0] if stated else "NOASSERTION"
    return frozenset(_normal(one.group()) for one in names if one), first


def _python_packages() -> list[_Package]:
    """Return all packages that the wheel installs, directly or indirectly, in the locked versions."""
    pinned: dict[str, list[_Package]] = {}
    latest: list[str] = []
    rows: list[tuple[str, str, list[str]]] = []
    for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines():
        if pin := re.match(r"([\w.-]+)==([\w.]+)", line):
            latest = []
            rows.append((pin[1], pin[2], latest))
        latest += re.findall(r"--hash=sha256:(\w+)", line)
    for name, number, hashes in rows:
        package = _Package(name, number, *_facts(name), tuple(hashes))
        pinned.setdefault(package.key, []).append(package)
    found, following = set[str](), sorted(_direct() & pinned.keys())
    while following:
        name = following.pop()
        if name not in found:
            found.add(name)
            following += sorted(set().union(*(one.needs for one in pinned[name])) & pinned.keys())
    return [one for name in sorted(found) for one in pinned[name]]


def sums(out: Path) -> str:
    """Return the lines of SHA256SUMS."""
    files = sorted(path for path in out.iterdir() if path.name != SUMS)
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def gather(out: Path, *, final: bool, everywhere: bool = False) -> list[str]:
    """Replace the folder `out` by the checked files of a release; return lines about them.

    With `everywhere`, there must be a wheel for each platform. Raises :class:`ReleaseError` if something is
    wrong.
    """
    wanted = version()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (out / NOTES).write_text(notes(changes, wanted, final=final), encoding="utf-8")
    heading = changes.partition("\n## ")[2].partition("\n")[0]
    check_citation((ROOT / "CITATION.cff").read_text(encoding="utf-8"), wanted, heading, final=final)
    built = ROOT / "target" / "wheels"
    wheels, sources = sorted(built.glob("*.whl")), sorted(built.glob("*.tar.gz"))
    if not wheels or [path.name for path in sources] != [f"silvan-{wanted}.tar.gz"]:
        raise ReleaseError(f"{built}: needs a wheel and silvan-{wanted}.tar.gz; run `make wheel`")
    check_platforms([path.name for path in wheels], everywhere=everywhere)
    told = [f"wheel: {check_wheel(path, wanted, final=final)}" for path in wheels]
    told.append(f"sources: {check_sources(sources[0])}")
    for path in (*wheels, *sources):
        shutil.copy2(path, out)
    told.append(f"crates: {', '.join(path.name for path in map(Path, package_crates(out)))}")
    told.append(f"site: {pack_site(out).name}")
    components = sbom()
    (out / SBOM).write_text(json.dumps(components, indent=2) + "\n", encoding="utf-8")
    told.append(f"components: {len(components['components'])} in {SBOM}")
    (out / SUMS).write_text(sums(out), encoding="utf-8")
    return [*told, f"{len(list(out.iterdir()))} files in {out}"]


def check_platforms(names: Sequence[str], *, everywhere: bool) -> None:
    """Raise :class:`ReleaseError` for two wheels of a platform, or with `everywhere` if one is missing."""
    found = [platform_of(name).name for name in names]
    if twice := sorted({one for one in found if found.count(one) > 1}):
        raise ReleaseError(f"there are several wheels for {', '.join(twice)}")
    missing = [platform.name for platform in PLATFORMS if platform.name not in found]
    if everywhere and missing:
        raise ReleaseError(f"there is no wheel for {', '.join(missing)}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Gather the files; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--final", action="store_true", help="a release, not a dry run")
    parser.add_argument("--all-platforms", action="store_true", help="a wheel must exist for each platform")
    parser.add_argument("--out", type=Path, default=ROOT / "target" / "release-files", metavar="DIR")
    options = parser.parse_args(arguments)
    try:
        for line in gather(options.out, final=options.final, everywhere=options.all_platforms):
            print(line)
    except ReleaseError as error:
        print(f"not ready for a release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
