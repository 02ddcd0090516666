"""Tests the checks of the files of a release, which `make release-check` performs."""

import io
import re
import tarfile
import zipfile
from datetime import date
from importlib import metadata

import pytest
import tomllib

import audit
import release
from conftest import ROOT

CORE = ROOT / "python" / "silvan" / "_core.abi3.so"
NAME = f"silvan-{release.version()}-cp310-abi3-manylinux_2_34_x86_64.whl"


def wheel(folder, name=NAME, module="silvan/_core.abi3.so", content=None, license_file=True):
    path = folder / name
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(module, CORE.read_bytes() if content is None else content)
        if license_file:
            archive.writestr("silvan.dist-info/licenses/LICENSE", "")
    return path


def check(path, *, final=False):
    return release.check_wheel(path, release.version(), final=final)


def test_a_wheel_says_for_what_it_is(tmp_path):
    assert check(wheel(tmp_path), final=True).startswith("cp310 and newer, manylinux_2_34_x86_64, glibc 2.")
    local = NAME.replace("manylinux_2_34", "linux")
    assert "linux_x86_64" in check(wheel(tmp_path, local))
    with pytest.raises(release.ReleaseError, match="is for this machine only"):
        check(wheel(tmp_path, local), final=True)


def changed(old, new):
    content = CORE.read_bytes()
    assert old in content
    return content.replace(old, new)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": NAME.replace("abi3", "cp310")}, "not a wheel for the stable interface"),
        ({"name": NAME.replace(release.version(), "0.1.0")}, "is version 0.1.0, not"),
        ({"name": NAME.replace("2_34", "2_5")}, r"needs glibc 2\.\d+, newer than its tag says"),
        ({"module": "silvan/_core.cpython-310.so"}, "its extension modules are silvan/_core.cpython-310.so"),
        ({"license_file": False}, "has no license"),
        ({"content": b"MZ"}, "its extension module is not one for Linux x86_64"),
        ({"content": b"\x7fELF\x02" + bytes(13) + b"\xb7\0"}, "is not one for Linux x86_64"),
        ({"name": NAME.replace("x86_64", "riscv64")}, "is for none of the platforms Linux x86_64, "),
        ({"name": NAME.replace("manylinux_2_34_x86_64", "win_amd64")}, r"modules are silvan/_core\.abi3\.so"),
    ],
)
def test_wrong_wheels_are_refused(tmp_path, changes, message):
    with pytest.raises(release.ReleaseError, match=message):
        check(wheel(tmp_path, **changes))


def test_a_wheel_that_needs_other_libraries_is_refused(tmp_path):
    with pytest.raises(release.ReleaseError, match=r"needs libx\.so\.6, which not every system has"):
        check(wheel(tmp_path, content=changed(b"\0libm.so.6\0", b"\0libx.so.6\0")))


#: Beginnings of shared libraries: ELF, Mach-O, and PE, whose second header is at 128 here.
MADE_UP = {
    "Linux x86_64": ("manylinux_2_17_x86_64.manylinux2014_x86_64", b"\x7fELF\x02" + bytes(13) + b"\x3e\0"),
    "Linux aarch64": ("manylinux2014_aarch64.manylinux_2_17_aarch64", b"\x7fELF\x02" + bytes(13) + b"\xb7\0"),
    "macOS x86_64": ("macosx_10_12_x86_64", bytes.fromhex("cffaedfe07000001")),
    "macOS arm64": ("macosx_11_0_arm64", bytes.fromhex("cffaedfe0c000001")),
    "Windows x86_64": ("win_amd64", b"MZ" + bytes(58) + b"\x80" + bytes(67) + b"PE\0\0\x64\x86"),
}


@pytest.mark.parametrize("platform", release.PLATFORMS, ids=lambda platform: platform.name)
def test_each_platform_has_its_wheels(tmp_path, platform):
    tag, binary = MADE_UP[platform.name]
    name = f"silvan-{release.version()}-cp310-abi3-{tag}.whl"
    assert release.platform_of(name) is platform
    assert [one.name for one in release.PLATFORMS if one.describes(binary)] == [platform.name]
    if not platform.name.startswith("Linux"):
        told = check(wheel(tmp_path, name, platform.module, binary), final=True)
        assert told == f"cp310 and newer, {tag}"


def test_a_release_has_one_wheel_for_each_platform():
    names = [f"silvan-0-cp310-abi3-{tag}.whl" for tag, _ in MADE_UP.values()]
    release.check_platforms(names, everywhere=True)
    release.check_platforms(names[:1], everywhere=False)
    with pytest.raises(release.ReleaseError, match=r"there is no wheel for Linux aarch64, macOS x86_64$"):
        release.check_platforms([names[0], *names[3:]], everywhere=True)
    with pytest.raises(release.ReleaseError, match="several wheels for macOS arm64"):
        release.check_platforms([*names, names[3]], everywhere=False)


def archive(folder, change=lambda text: text):
    """Write a source archive with two crates, of which the lock file also has crates that are not in it."""
    lock = (ROOT / "Cargo.lock").read_text()
    manifest = (ROOT / "Cargo.toml").read_text()
    members = re.search(r"^members = .*$", manifest, re.MULTILINE)[0]
    files = {
        "Cargo.toml": manifest.replace(members, 'members = ["crates/silvan-engine", "crates/silvan-derive"]'),
        "Cargo.lock": change(lock),
    }
    path = folder / "silvan-0.tar.gz"
    with tarfile.open(path, "w:gz") as made:
        for name, text in files.items():
            info = tarfile.TarInfo(f"silvan-0/{name}")
            info.size = len(text.encode())
            made.addfile(info, io.BytesIO(text.encode()))
        for name in ("silvan-engine", "silvan-derive"):
            made.add(ROOT / "crates" / name, f"silvan-0/crates/{name}")
    return path


def test_a_build_from_the_sources_uses_the_locked_crates(tmp_path, monkeypatch):
    assert re.fullmatch(r"\d+ locked crates", release.check_sources(archive(tmp_path)))
    with pytest.raises(
        release.ReleaseError, match=r"its lock file lacks libc 0\.2\.\d+, so a build could use"
    ):
        release.check_sources(archive(tmp_path, without("libc")))


def without(crate):
    """Return a function that removes a crate from the text of a lock file."""
    return lambda text: re.sub(rf'\[\[package\]\]\nname = "{crate}"\n.*?\n\n', "", text, flags=re.DOTALL)


def test_the_citation_has_the_version_and_the_date_of_the_changelog():
    text = "cff-version: 1.2.0\nversion: 0.3.0\n"
    dated = text + 'date-released: "2027-01-31"\n'
    release.check_citation(text, "0.3.0", "0.3.0, unreleased", final=False)
    release.check_citation(dated, "0.3.0", "0.3.0, 2027-01-31", final=True)
    with pytest.raises(release.ReleaseError, match=r"is version 0\.3\.0, not 0\.4\.0"):
        release.check_citation(text, "0.4.0", "0.4.0, unreleased", final=False)
    with pytest.raises(release.ReleaseError, match="date-released is missing, and the changelog says 2027"):
        release.check_citation(text, "0.3.0", "0.3.0, 2027-01-31", final=True)
    with pytest.raises(release.ReleaseError, match="date-released is 2027-01-31, and the changelog says un"):
        release.check_citation(dated, "0.3.0", "0.3.0, unreleased", final=False)


def test_the_notes_are_the_first_section_of_the_changelog():
    text = "# Changelog\n\n## 0.3.0, 2027-01-31\n\nNew.\n\n## 0.2.0, 2026-12-01\n\nOld.\n"
    assert release.notes(text, "0.3.0", final=True) == "# Silvan 0.3.0\n\nNew.\n"
    with pytest.raises(release.ReleaseError, match=r"the first section is not that of 0\.2\.0"):
        release.notes(text, "0.2.0", final=False)
    open_text = text.replace("2027-01-31", "unreleased")
    assert "New." in release.notes(open_text, "0.3.0", final=False)
    with pytest.raises(release.ReleaseError, match="dated `unreleased`"):
        release.notes(open_text, "0.3.0", final=True)
    with pytest.raises(release.ReleaseError, match="is empty"):
        release.notes(text.replace("New.\n", ""), "0.3.0", final=True)


def test_all_components_of_the_wheel_are_listed():
    found = release.sbom()
    names = {one["name"] for one in found["components"]}
    assert {"pyo3", "serde", "toml", "silvan-fabric", "numpy", "matplotlib"} <= names
    assert not {"proptest", "criterion", "pytest"} & names
    foreign = [
        one
        for one in found["components"]
        if one["purl"].startswith("pkg:cargo/") and "silvan" not in one["name"]
    ]
    assert all(len(one["hashes"][0]["content"]) == 64 for one in foreign)
    assert all(one["licenses"][0]["expression"] != "NOASSERTION" for one in foreign)
    assert found == release.sbom()
    # Packages that others need are listed too, with licenses and the hashes of their files.
    assert {"pillow", "fonttools", "Pygments", "markdown-it-py"} <= names
    assert not {"maturin", "pip"} & names
    packages = [one for one in found["components"] if one["purl"].startswith("pkg:pypi/")]
    assert all(one["properties"] for one in packages)
    assert all(
        one["licenses"][0]["license"]["name"] != "NOASSERTION" for one in packages if is_installed(one)
    )
    # The graph of dependencies names only components, and leads from Silvan to all of them.
    purls = {one["purl"] for one in found["components"]}
    graph = {one["ref"]: set(one["dependsOn"]) for one in found["dependencies"]}
    top = found["metadata"]["component"]["purl"]
    assert set(graph) == purls | {top}
    reached, following = {top}, [top]
    while following:
        for other in graph[following.pop()] - reached:
            reached.add(other)
            following.append(other)
    assert reached == purls | {top}


def is_installed(component):
    try:
        return metadata.version(component["name"]) == component["version"]
    except metadata.PackageNotFoundError:
        return False


@pytest.mark.parametrize(
    ("one", "message"),
    [
        ({"id": "X-1", "reason": "not used"}, "needs `id`, `reason` and `until`"),
        ({"id": "X-1", "reason": " ", "until": date(2027, 1, 1)}, "needs a reason"),
        ({"id": "X-1", "reason": "not used", "until": "2027-01-01"}, "needs a reason, and a date"),
        ({"id": "X-1", "reason": "not used", "until": date(2026, 1, 1)}, "the exception ended on 2026-01-01"),
    ],
)
def test_wrong_and_outdated_exceptions_of_the_audit_are_reported(one, message):
    with pytest.raises(audit.AuditError, match=message):
        audit.exceptions({"exception": [one]}, date(2026, 6, 1))


def test_exceptions_of_the_audit_reach_the_program_that_knows_them():
    until = date(2027, 1, 1)
    listed = [
        {"id": name, "reason": "not used", "until": until} for name in ("RUSTSEC-2026-1", "PYSEC-2026-2")
    ]
    accepted = audit.exceptions({"exception": listed}, date(2026, 6, 1))
    for program, arguments in audit.commands(accepted):
        known = program == "cargo-audit"
        assert (arguments[-2:] == ["--ignore", "RUSTSEC-2026-1"]) is known
        assert (arguments[-2:] == ["--ignore-vuln", "PYSEC-2026-2"]) is not known
        assert (ROOT / arguments[arguments.index("--file" if known else "--requirement") + 1]).is_file()
    # The list in the repository is valid.
    audit.exceptions(tomllib.loads(audit.EXCEPTIONS.read_text()), date(2026, 6, 1))


def test_an_audit_that_did_not_take_place_fails(monkeypatch, capsys):
    monkeypatch.setattr(audit.shutil, "which", lambda program: None)
    assert audit.main() == 1
    assert capsys.readouterr().err == (
        "not audited: cargo-audit is not installed\nnot audited: pip-audit is not installed\n"
    )
    # A package that cannot be looked up is an error.
    assert all("--strict" in one for program, one in audit.commands([]) if program == "pip-audit")


def test_checksums_cover_all_files(tmp_path):
    (tmp_path / "a").write_text("x")
    (tmp_path / release.SUMS).write_text("old")
    assert release.sums(tmp_path) == ("2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881  a\n")
