"""Tests that the files of the repository follow the rules of the project."""

import graphlib
import itertools
import re
import subprocess
from collections import Counter

import pytest

import rust_modules
import silvan
from conftest import ROOT


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        return [str(path.relative_to(ROOT)) for path in (ROOT / "python").rglob("*.py")]
    return listed.stdout.splitlines()


def test_rust_files_say_what_they_are_about():
    silent = [
        name for name in tracked() if name.endswith(".rs") and not (ROOT / name).read_text().startswith("//!")
    ]
    assert not silent, "begin with a `//!` comment that states the subject of the file"


#: The start of a line with a comment, and its most columns, by the end of a file's name. No formatter
#: shortens these. Comments of scenarios may be as wide as documents, which show them. Ruff checks Python.
COMMENTS = {
    (".rs", ".c", ".h", ".cpp", ".js", ".css"): (("//", "/*", "*"), 130),
    ("Makefile", ".yml", ".sh", ".cmake"): (("#",), 130),
    (".toml",): (("#",), 140),
}


def test_comments_have_a_limited_width():
    wide = [
        f"{name}:{number}: more than {most} columns"
        for ends, (marks, most) in COMMENTS.items()
        for name in tracked()
        if name.endswith(ends) and not name.startswith("fuzz/seeds/")
        for number, line in enumerate((ROOT / name).read_text().splitlines(), start=1)
        if len(line) > most and line.lstrip().startswith(marks)
    ]
    assert not wide


def test_every_file_of_tests_is_in_a_test_program():
    """Cargo does not find files by itself in a crate that names its test programs."""
    roots = sorted(ROOT.glob("crates/*/tests/all.rs"))
    assert len(roots) == 3
    for root in roots:
        programs = re.findall(r'\[\[test\]\]\nname = "(\w+)"', (root.parents[1] / "Cargo.toml").read_text())
        modules = re.findall(r"^mod (\w+);", root.read_text(), re.MULTILINE)
        assert {path.stem for path in root.parent.glob("*.rs")} == {*programs, *modules} - {"common"}


def pins(lock):
    """Return the normalized names that a lock file pins."""
    lines = (ROOT / lock).read_text().splitlines()
    names = [line.split("==")[0] for line in lines if line and not line.startswith(("#", "-r ", " "))]
    return {re.sub(r"[-_.]+", "-", name).lower() for name in names}


@pytest.mark.parametrize(
    "locks",
    [["requirements.lock", *more] for more in ([], ["requirements-dev.lock"], ["requirements-site.lock"])],
)
def test_the_locks_pin_everything_installed(locks):
    """Requirements of locked packages are locked too; run-time packages do not need development packages."""
    from importlib.metadata import PackageNotFoundError, requires

    locked = set().union(*map(pins, locks))
    missing = set()
    for name in locked | {"silvan"}:
        try:
            needs = requires(name) or []
        except PackageNotFoundError:
            continue  # needed only by another version of Python
        for need in needs:
            if re.search("extra ==|sys_platform ==|platform_system ==|python_version <", need):
                continue
            wanted = re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", need).group()).lower()
            if wanted not in locked:
                missing.add(f"{wanted} (for {name})")
    assert not missing


@pytest.mark.parametrize(
    "lock", [path.name for path in sorted(ROOT.glob("requirements*.lock"))] or ["requirements.lock"]
)
def test_each_pinned_version_has_hashes(lock):
    lines = [
        line for line in (ROOT / lock).read_text().splitlines() if line and not line.startswith(("#", "-r "))
    ]
    for line, following in itertools.pairwise([*lines, ""]):
        if line.startswith(" "):
            assert re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line), line
        else:
            assert "==" in line, line
            assert following.startswith("    --hash="), f"{line}: run make lock"


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


def test_one_version_everywhere():
    def found(file, pattern):
        return re.findall(pattern, (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)

    version = found("Cargo.toml", r'^version = "(.*)"$')
    assert version == [silvan.__version__]
    assert found("CITATION.cff", "^version: (.*)$") == version
    assert found("CHANGELOG.md", "^## ([0-9.]+)")[:1] == version
    for lock in ("Cargo.lock", "fuzz/Cargo.lock"):
        assert {*found(lock, r'^name = "silvan-(?!fuzz).*"\nversion = "(.*)"$')} == {*version}, lock


def table_of_rooms():
    """Return which other modules each module of the model may use according to CONTRIBUTING.md, or None."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*`) \| (.*) \|$", text.split("### Modules of the model")[1], re.MULTILINE)
    allowed = {}
    for rooms, others in rows:
        names = None if others == "all" else set(re.findall(r"`(\w+)`", others))
        allowed.update(dict.fromkeys(re.findall(r"`(\w+)`", rooms), names))
    return allowed


#: The crates of the model whose modules the table lists. Their modules have different names.
MODEL = ("silvan-network", "silvan-fabric")
#: Paths of modules, and of the crate `silvan-congestion`, which counts as one module.
MODULE = re.compile(r"\b(?:crate|silvan_network|silvan_fabric)::(\w+)|\bsilvan_(congestion)::")


def used_by_rooms():
    """Return, for each module of the model, the others that its files use, except in tests."""
    used = {}
    for crate in (*MODEL, "silvan-congestion"):
        source = ROOT / "crates" / crate / "src"
        for path in source.rglob("*.rs"):
            room = path.relative_to(source).parts[0].removesuffix(".rs") if crate in MODEL else "congestion"
            if room == "lib" or path.name == "tests.rs":
                continue
            code = path.read_text(encoding="utf-8").split("#[cfg(test)]\nmod tests {")[0]
            code = re.sub(r"//.*", "", code)
            if crate not in MODEL:
                code = code.replace("crate::", "")
            # The search does not support the form `use crate::{one, other}`.
            assert not re.search(r"\b(?:crate|silvan_network|silvan_fabric)::{", code), path
            found = {module or other for module, other in MODULE.findall(code)} - {room}
            used.setdefault(room, set()).update(found)
    return used


def test_rooms_use_only_those_they_may():
    allowed, used = table_of_rooms(), used_by_rooms()
    assert allowed.keys() == used.keys(), "a room without a row, or a row without its room"
    for room, others in allowed.items():
        if others is not None:
            assert used[room] == others, f"{room} may use {sorted(others)}"


def test_rooms_use_each_other_in_no_cycle():
    """Modules that may use all others come last, so no other module may use them."""
    allowed = table_of_rooms()
    free = {room for room, others in allowed.items() if others is None}
    users = {room: others - {room} for room, others in allowed.items() if others is not None}
    assert not free & set().union(*users.values()), f"{sorted(free)} may use all and must not be used"
    try:
        graphlib.TopologicalSorter(users).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"rooms use each other in a cycle: {' -> '.join(error.args[1])}")


@pytest.mark.parametrize(
    ("crate", "others"),
    [
        ("derive", set()),
        ("engine", {"derive"}),
        ("trace", {"engine"}),
        ("network", {"engine", "trace"}),
        ("congestion", {"engine", "network"}),
        ("fabric", {"engine", "trace", "network", "congestion"}),
    ],
)
def test_crates_use_only_those_below_them(crate, others):
    manifest = (ROOT / f"crates/silvan-{crate}/Cargo.toml").read_text()
    used = re.findall(r"^silvan-(\w+)", manifest.split("[dependencies]")[1], re.MULTILINE)
    assert set(used) == others


#: Names that two or three types of the model have. A new type needs another name.
SHARED_NAMES = {"Architecture", "Channel", "Host", "Lanes", "Packet", "Source", "Wires"}


def test_types_of_the_model_have_different_names():
    defined = Counter()
    for crate in (*MODEL, "silvan-congestion"):
        for path in (ROOT / "crates" / crate / "src").rglob("*.rs"):
            if path.name == "tests.rs":
                continue
            code = path.read_text(encoding="utf-8").split("#[cfg(test)]\nmod tests {")[0]
            defined.update(
                re.findall(r"^\s*(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait) (\w+)", code, re.MULTILINE)
            )
    assert {name for name, count in defined.items() if count > 1} == SHARED_NAMES


#: Cycles that are left, with the names that close them: crate, module, and the parts of the cycle.
CYCLES = {
    # `record` finds the messages of a recording (`messages`) and unites spans of ports (`united`). Both use
    # its rows.
    ("silvan-delays", "", "message piece ports ranks record"),
    # Detours (`valiant`) decide on lanes, and extend minimal routes, which are also routes of one lane.
    ("silvan-network", "routing", "lanes minimal valiant"),
    # A heuristic reads the announced flows of a switch, whose state names the heuristic.
    ("silvan-network", "routing::adaptive", "heuristic state"),
    # A source may draw its destinations with the generator of a forest, which returns a source's message.
    ("silvan-network", "traffic", "forest source"),
    # `spec` contains the keys of jobs and of reductions; checks, preparation and reports read all of it.
    (
        "silvan-scenario",
        "",
        "estimate fluid jobs network ports prepare reduction report rows scenario schema shape spec validate",
    ),
    # A trace orders the operations of a rank with `Sequence`, which adds operations to a trace.
    ("silvan-trace", "", "sequence trace"),
    # `ranks` uses the rounding of `loggp`, which transports the parcels of ranks.
    ("silvan-trace", "execute", "loggp ranks"),
    # The readers of values, JSON and work fill the nodes of `chakra`, which calls them.
    ("silvan-trace", "read", "chakra chakra_json chakra_values work"),
    # `vef` builds a graph from its records, and `vef_graph` names the records.
    ("silvan-trace", "read", "vef vef_graph"),
}


def cycles_of(crate, source):
    found = set()
    for module, graph in rust_modules.parts_of_modules(rust_modules.Crate(source).uses()).items():
        found |= {(crate, "::".join(module), " ".join(cycle)) for cycle in rust_modules.cycles(graph)}
    return found


def test_parts_of_a_module_use_each_other_in_no_cycle():
    """Names that several parts need belong in another part, or in the file of the module itself."""
    found = set().union(
        *(cycles_of(path.name, path / "src") for path in (ROOT / "crates").iterdir() if path.is_dir())
    )
    assert found == CYCLES


def test_cycles_of_parts_are_found(tmp_path):
    """Paths are followed through lists, other names and names that a module passes on, but not into tests."""
    files = {
        "lib.rs": "mod one;\nmod two;\nmod three;\nmod four;\npub use three::Deep;",
        "one.rs": "use crate::{two::{self, Pair as Other}, four};\nstruct Own;",
        "two/mod.rs": "mod inner;\npub struct Pair;",
        "two/inner.rs": "fn f() -> crate::Deep { todo!() }",
        "three.rs": "pub struct Deep;\nfn g(_: super::one::Own) {} // crate::four",
        "four.rs": 'const TEXT: &str = "crate::one::Own";\n#[cfg(test)]\nuse crate::one::Own;',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cycles_of("it", tmp_path) == {("it", "", "one three two")}
    (tmp_path / "three.rs").write_text("pub struct Deep;")
    assert cycles_of("it", tmp_path) == set()
