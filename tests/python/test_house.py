"""What keeps the house in order."""

import re
import subprocess

from conftest import ROOT

LINES_AT_MOST = 700


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        return [str(path.relative_to(ROOT)) for path in (ROOT / "python").rglob("*.py")]
    return listed.stdout.splitlines()


def test_files_fit_a_head():
    long = {}
    for name in tracked():
        if name.endswith((".rs", ".py", ".pyi")) and (ROOT / name).is_file():
            lines = len((ROOT / name).read_text(encoding="utf-8").splitlines())
            if lines > LINES_AT_MOST:
                long[name] = lines
    assert not long, f"longer than {LINES_AT_MOST} lines: split them"


def test_the_lock_pins_everything_installed():
    """Every requirement of a locked package is locked too."""
    from importlib.metadata import PackageNotFoundError, requires

    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = [line.split("==")[0] for line in lines if line and not line.startswith("#")]
    locked = {re.sub(r"[-_.]+", "-", pin).lower() for pin in pins}
    missing = set()
    for name in locked | {"silvan"}:
        try:
            needs = requires(name) or []
        except PackageNotFoundError:
            continue  # only for another Python
        for need in needs:
            if re.search("extra ==|sys_platform ==|platform_system ==|python_version <", need):
                continue
            wanted = re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", need).group()).lower()
            if wanted not in locked:
                missing.add(f"{wanted} (for {name})")
    assert not missing


def test_the_lock_names_versions_only():
    for line in (ROOT / "requirements.lock").read_text().splitlines():
        assert re.fullmatch(r'#.*|[\w.-]+==[\w.]+(; python_version (<|>=) "3\.11")?', line), line


def test_links_in_the_documents_lead_somewhere():
    broken = []
    for name in tracked():
        path = ROOT / name
        if path.suffix != ".md" or not path.is_file():
            continue
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", path.read_text(encoding="utf-8")):
            if not (path.parent / target).exists():
                broken.append(f"{name}: {target}")
    assert not broken
