"""Tests files that are read, written and removed: other files stay intact, and errors are helpful."""

import errno
import json
import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import silvan
from conftest import FABRICS, ROOT, SMALL, command
from silvan import _files, _folder, _store, cli, demo, plot
from silvan._store import Store, address

SW2 = FABRICS / "sw2-h7" / "updn"
STUDY = 'scenario = "small.toml"\n[[axis]]\nkey = "congestion.mechanism"\nvalues = ["none", "ib-cc"]\n'
#: A depth that exceeds the limits of Python's JSON and TOML parsers.
DEEP = 100_000
posix = pytest.mark.skipif(os.name != "posix", reason="needs FIFOs and devices")


def invoke(*arguments):
    return CliRunner().invoke(cli.application(), [str(argument) for argument in arguments])


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def study(small: Path) -> Path:
    path = small.with_name("study.toml")
    path.write_text(STUDY)
    return path


@pytest.fixture
def scenario() -> silvan.Scenario:
    return silvan.Scenario.from_toml(SMALL)


@posix
def test_a_full_disk_is_reported_with_the_file(tmp_path):
    import resource

    path, limit = tmp_path / "report.html", resource.getrlimit(resource.RLIMIT_FSIZE)
    path.write_text("old")
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
    try:
        with pytest.raises(OSError, match="too large") as caught:
            _files.write_text(path, "x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert caught.value.filename == str(path)
    assert contents(tmp_path) == {"report.html": b"old"}


# The command removes and overwrites only files that it wrote.


def test_a_run_never_replaces_a_sweep(small, study, tmp_path):
    out = tmp_path / "out"
    assert command("sweep", study, "--out", out, "--jobs", 1).returncode == 0
    (out / "thesis.tex").write_text("precious")
    before = contents(out)
    done = command("run", small, "--out", out)
    assert done.returncode == 1
    assert f"{out}: is not empty and not the folder of a run; choose another or empty it" in done.stderr
    with pytest.raises(silvan.ResultError, match="not the folder of a run"):
        silvan.run(small).save(out)
    assert contents(out) == before


def test_a_sweep_never_overwrites_a_run_or_a_table(small, study, tmp_path):
    out = tmp_path / "out"
    assert invoke("run", small, "--out", out).exit_code == 0
    before = contents(out)
    done = command("sweep", study, "--out", out)
    assert done.returncode == 1
    assert f"{out}: its provenance.json would be overwritten, and no sweep wrote that; choose" in done.stderr
    assert contents(out) == before

    own = tmp_path / "own"
    own.mkdir()
    (own / "table.parquet").write_text("precious")
    with pytest.raises(silvan.SweepError, match=r"its table\.parquet would be overwritten"):
        silvan.sweep(small, executor="threads", store=tmp_path / "runs", out=own)
    assert contents(own) == {"table.parquet": b"precious"}
    assert not (tmp_path / "runs").exists()


def test_a_sweep_does_replace_its_own_table(small, tmp_path):
    for _ in range(2):
        silvan.sweep(small, executor="threads", store=tmp_path / "runs", out=tmp_path / "out")
    assert sorted(contents(tmp_path / "out")) == ["provenance.json", "table.parquet"]


@pytest.mark.parametrize("name", ["note.txt", "figures/mine.png", "mine.parquet", "runs/table"])
def test_a_run_is_replaced_only_if_nothing_else_is_with_it(result, tmp_path, name):
    def draw():
        (folder / "figures").mkdir()
        for figure in _folder.FIGURE_FILES:
            (folder / "figures" / figure).touch()

    folder = result.save(tmp_path / "run")
    draw()
    result.save(folder)
    assert not (folder / "figures").exists()

    draw()
    stranger = folder / name
    stranger.parent.mkdir(exist_ok=True)
    stranger.write_text("precious")
    before = contents(folder)
    shown = name if name.startswith("figures") else name.split("/", 1)[0]
    with pytest.raises(silvan.ResultError, match=rf"files that no run writes: {shown}; choose another"):
        result.save(folder)
    assert contents(folder) == before


def test_the_folder_one_is_in_is_not_replaced(small, tmp_path):
    folder = tmp_path / "run"
    assert invoke("run", small, "--out", folder).exit_code == 0
    for out in (".", folder, ".."):
        done = command("run", small, "--out", out, cwd=folder)
        assert "is the current folder or one above it" in done.stderr
    assert (folder / "provenance.json").is_file()


@posix
def test_links_are_not_followed_into_what_is_not_ours(result, tmp_path):
    folder = result.save(tmp_path / "run")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "throughput.png").write_text("precious")
    (folder / "figures").symlink_to(elsewhere)
    with pytest.raises(silvan.ResultError, match="contains files that no run writes: figures"):
        result.save(folder)
    assert (elsewhere / "throughput.png").read_text() == "precious"


def test_what_comes_in_between_stays(result, tmp_path, monkeypatch):
    """Another program puts a file into the folder while the run is being written."""
    folder = result.save(tmp_path / "run")
    written = _folder._write_files

    def slow(partial, kept):
        written(partial, kept)
        (folder / "note.txt").write_text("precious")

    monkeypatch.setattr(_folder, "_write_files", slow)
    with pytest.raises(silvan.ResultError, match=r"run: is not replaced, since it contains .* note\.txt"):
        result.save(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert (folder / "note.txt").read_text() == "precious"
    assert silvan.load(folder).summary == result.summary


def test_all_that_a_run_may_hold_is_listed(tmp_path):
    assert tuple(plot.FIGURES) == _folder.FIGURES
    short = {"duration": "20 us", "warmup": "0 s", "measure.interval": "10 us"}
    for name in ("testbed.toml", "ecocc-trees.toml", "hot-phase.toml"):
        run = silvan.run(silvan.Scenario.load(ROOT / "scenarios" / name, short))
        assert set(run.tables) <= set(_folder.TABLES)
    folder = run.save(tmp_path / "run")
    assert _folder.strangers(folder) == []
    _folder.remove(folder)
    assert not folder.exists()


def test_the_demonstration_replaces_only_its_own(result, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "find_scenario", lambda: ROOT / "scenarios" / "testbed.toml")
    out = tmp_path / "demo"

    def never(*_):
        raise AssertionError

    (out / "cc-on").mkdir(parents=True)
    (out / "cc-on" / "thesis.tex").write_text("precious")
    with pytest.raises(FileExistsError, match="not the folder of a run"):
        demo.run(None, out, never)
    shutil.rmtree(out / "cc-on")
    (out / "comparison.svg").write_text("precious")
    with pytest.raises(FileExistsError, match="was not written by an earlier demo"):
        demo.run(None, out, never)
    assert contents(out) == {"comparison.svg": b"precious"}


def test_the_store_clears_only_what_it_left(scenario, tmp_path):
    shelf = tmp_path / "ab"
    shelf.mkdir()
    at = "ab" + 30 * "0"
    for name in (
        f".{at}.partial-1-2",
        f".{at}.summary.partial-1-2",
        ".abc.partial-mine",
        f".{at}mine.partial-",
    ):
        (shelf / name).mkdir()
    (shelf / ".abc.lock").write_text("mine")
    assert Store(tmp_path).clear_leftovers() == 2
    assert sorted(path.name for path in shelf.iterdir()) == [
        f".{at}mine.partial-",
        ".abc.lock",
        ".abc.partial-mine",
    ]


def test_routing_never_overwrites_what_it_reads(tmp_path):
    topology = tmp_path / "my.topo"
    shutil.copy(SW2 / "ibnetdiscover.topo", topology)
    before = topology.read_bytes()
    for arguments in (
        ("--out", topology),
        ("--out", "x", "--network", topology),
        ("--out", "x", "--network", "x"),
    ):
        done = command("fabric", "route", topology, *arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert "is also the file of" in done.stderr
    assert contents(tmp_path) == {"my.topo": before}


@posix
def test_devices_and_fifos_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for target in (tmp_path / "fifo", "/dev/full"):
        done = command("fabric", "route", SW2 / "ibnetdiscover.topo", "--out", target)
        assert done.returncode == 1
        assert f"{target}: not a regular file" in done.stderr
    assert not Path("/dev/full").is_file()
    assert (tmp_path / "fifo").is_fifo()


# Tests with full disks.


def test_a_table_on_a_full_disk_is_one_message(small, study, tmp_path, monkeypatch):
    write = Path.write_bytes

    def full(path, data):
        if path.name.startswith(".table.parquet"):
            write(path, data[:10])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(silvan.SweepError, match=r"out: No space left on device; the runs are in .*runs"):
        silvan.sweep(small, executor="threads", store=tmp_path / "runs", out=tmp_path / "out")
    assert sorted(contents(tmp_path / "out")) == ["provenance.json"]


@posix
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_whatever_writes_tables_meets_errors_of_the_system(result, tmp_path, monkeypatch):
    """Every write to /dev/full fails. The error must be that of the system and not a panic of the library."""

    def devoted(path):
        path.symlink_to("/dev/full")
        return path

    with pytest.raises(OSError, match="No space left"):
        devoted(tmp_path / "flows.parquet").write_bytes(_folder.parquet(result.flows))


# Tests with special files, and with names that no file can have.


@posix
@pytest.mark.parametrize("kind", ["fifo", "device", "folder"])
def test_only_plain_files_are_read(small, study, tmp_path, kind):
    """Other files must not be opened, because opening a FIFO blocks."""
    odd = Path("/dev/zero") if kind == "device" else tmp_path / "odd"
    if kind == "fifo":
        os.mkfifo(odd)
    elif kind == "folder":
        odd.mkdir()
    wrong = "is a folder; a file is needed here" if kind == "folder" else "not a regular file but a FIFO"
    of_odd = tmp_path / "of-odd.toml"
    of_odd.write_text(STUDY.replace("small.toml", str(odd)))
    fabric = tmp_path / "fabric.toml"
    text = (ROOT / "scenarios" / "fabric-648.toml").read_text()
    fabric.write_text(text.replace("../tests/data", str(ROOT / "tests" / "data")))
    topology = SW2 / "ibnetdiscover.topo"
    commands = [
        ("run", odd),
        ("check", odd, "--fluid"),
        ("fabric", "check", odd, "--lft", odd),
        ("fabric", "check", topology, "--lft", odd),
        ("fabric", "route", odd, "--out", "x"),
        ("fabric", "options", odd),
        ("sweep", odd),
        ("sweep", of_odd),
        ("check", fabric, "--set", f"topology.file={odd}"),
        ("check", fabric, "--set", f"routing.file={odd}"),
        ("run", fabric, "--set", f"topology.file={odd}"),
    ]
    if kind == "folder":
        # These commands search the path for files.
        commands.remove(("fabric", "check", odd, "--lft", odd))
    else:
        commands.append(("run", small, "--opensm-conf", odd))
    for arguments in commands:
        done = invoke(*arguments)
        assert wrong in str(done.exception), arguments
        assert str(odd) in str(done.exception), arguments
    whole = command("sweep", study, "--out", tmp_path / "out", "--set", f"topology.file={odd}")
    assert whole.returncode == 1
    assert "Traceback" not in whole.stderr


@posix
def test_files_that_a_scenario_names_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "odd")
    text = (ROOT / "scenarios" / "fabric-648.toml").read_text()
    text = text.replace("../tests/data", str(ROOT / "tests" / "data"))
    scenario = silvan.Scenario.from_toml(text, base_dir=tmp_path, overrides={"routing.file": "odd"})
    with pytest.raises(silvan.SweepError, match="odd: cannot be read: not a regular file"):
        silvan.sweep(scenario, executor="threads", store=tmp_path / "runs")
    scenario = scenario.with_overrides({"routing.file": '"o\\u0000d"'})
    with pytest.raises(silvan.SweepError, match="cannot be read: a file name cannot contain a NUL character"):
        silvan.sweep(scenario, executor="threads", store=tmp_path / "runs")


@posix
@pytest.mark.parametrize("name", ["summary.json", "scenario.toml", "flows.parquet"])
def test_a_run_of_which_a_file_is_a_fifo_is_not_waited_for(result, tmp_path, name):
    folder = result.save(tmp_path / "run")
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(silvan.ResultError, match=rf"{name}: cannot be read: not a regular file"):
        silvan.load(folder)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("a\\u0000b", "no control characters"),
        ("a\\nb", "no control characters"),
        (300 * "x", "at most 200 bytes"),
    ],
)
def test_a_study_is_called_what_a_folder_can_be(study, tmp_path, name, says):
    study.write_text(f'name = "{name}"\n{STUDY}')
    done = command("sweep", study, cwd=tmp_path)
    assert done.returncode == 1
    assert f"{study}:1: name = " in done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = " + "[" * DEEP + "]" * DEEP, "tables or lists nested too deep"),
        ("a" + ".a" * DEEP + " = 1", "a key has more than 64 parts"),
        ("seeds = [" + "9" * 5000 + "]", "not valid TOML: Exceeds the limit"),
        ('[[measure]]\nname = "a\\u0000"\nsummary = "jain_flows"', "has control characters in its name"),
    ],
)
def test_a_study_that_is_nonsense_is_one_message(study, text, says):
    study.write_text(f'scenario = "small.toml"\n{text}')
    with pytest.raises(silvan.SweepError, match=says):
        silvan.sweeps.Study.load(study)


@posix
def test_settings_that_are_no_text_are_wrong_usage(small):
    done = command("run", small, "--set", os.fsdecode(b"name=\xff"))
    assert done.returncode == 2
    assert "is not text in UTF-8" in done.stderr


# Damages to runs after they were written.

DAMAGE = {
    "a summary nested too deep": ("summary.json", "[" * DEEP + "]" * DEEP),
    "a summary of something else": ("summary.json", "[]"),
    "an empty summary": ("summary.json", ""),
    "no summary": ("summary.json", None),
    "a table of zeros": ("flows.parquet", "\0" * 2000),
    "no table": ("links.parquet", None),
    "an empty scenario": ("scenario.toml", ""),
    "a provenance cut short": ("provenance.json", '{"format": 3, "tables": ['),
    "a provenance nested too deep": ("provenance.json", "[" * DEEP),
    "no provenance": ("provenance.json", None),
    "a provenance of nothing": ("provenance.json", "{}"),
}


def damage(folder: Path, name: str) -> None:
    file, text = DAMAGE[name]
    (folder / file).unlink()
    if text is not None:
        (folder / file).write_text(text)


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_run_is_told(result, tmp_path, name):
    folder = result.save(tmp_path / "run")
    damage(folder, name)
    with pytest.raises(silvan.ResultError, match=f"{folder}: "):
        silvan.load(folder)


def test_a_base_that_is_no_folder_is_told(result, tmp_path):
    folder = result.save(tmp_path / "run")
    provenance = json.loads((folder / "provenance.json").read_text())
    (folder / "provenance.json").write_text(json.dumps({**provenance, "base_dir": {}}))
    with pytest.raises(silvan.ResultError, match=r"`base_dir` is .*not of type str"):
        silvan.load(folder)


def test_one_changed_byte_is_seen(result, tmp_path):
    """A damaged table must not reach the library that reads it: the library would abort the process."""
    folder = result.save(tmp_path / "run")
    content = bytearray((folder / "flows.parquet").read_bytes())
    content[len(content) // 2] ^= 0x55
    (folder / "flows.parquet").write_bytes(content)
    with pytest.raises(silvan.ResultError, match=r"flows\.parquet: changed since it was written"):
        silvan.load(folder)


@pytest.mark.parametrize("keep", ["tables", "summary"])
@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_run_of_a_store_is_simulated_anew(scenario, result, tmp_path, name, keep):
    store = Store(tmp_path)
    first = store.run(scenario, keep=keep)
    if DAMAGE[name][0] not in {path.name for path in first.folder.iterdir()}:
        return  # a summary without tables has no table to damage
    damage(first.folder, name)
    again = store.run(scenario, keep=keep)
    assert (first.found, again.found) == (False, False)
    assert again.result.summary == result.summary
    assert store.run(scenario, keep=keep).found
    assert [path.name for path in first.folder.parent.iterdir()] == [first.folder.name]


@pytest.mark.parametrize("measure", [None, "jain_flows", lambda run: run.flows.num_rows])
@pytest.mark.parametrize("name", DAMAGE)
def test_a_sweep_goes_on_over_a_damaged_run(scenario, tmp_path, name, measure):
    def sweep() -> "silvan.sweeps.table.Sweep":
        return silvan.sweep(scenario, executor="threads", store=tmp_path, measure=measure)

    whole = sweep()
    damage(whole.rows[0].folder, name)
    again = sweep()
    assert not again.failures
    assert again.rows[0].values == whole.rows[0].values
    assert again.result(0).summary["packets_delivered"] > 0
    assert (sweep().found, sweep().simulated) == (1, 0)


def test_a_damaged_run_that_holds_more_than_a_run_is_left_alone(scenario, tmp_path):
    store = Store(tmp_path)
    folder = store.run(scenario).folder
    damage(folder, "an empty summary")
    (folder / "note.txt").write_text("precious")
    with pytest.raises(silvan.ResultError, match=r"damaged, and .*files that no run writes: note\.txt"):
        store.run(scenario)
    assert (folder / "note.txt").read_text() == "precious"


def test_a_run_that_may_not_be_read_is_not_simulated_over(scenario, tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.run(scenario)

    def forbidden(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(_files, "plain", forbidden)
    with pytest.raises(silvan.ResultError, match="Permission denied"):
        store.run(scenario)


def test_damaged_notes_are_made_anew(scenario, tmp_path):
    measure = {"name": "victim", "table": "flows", "column": "received_gbit_s", "of": "F1"}

    def sweep():
        return silvan.sweep(scenario, executor="threads", store=tmp_path, measure=[measure])

    values = sweep().rows[0].values
    notes = sorted(tmp_path.glob(f"*/*{_store.NOTES}/*.json"))
    written = [json.loads(note.read_text()) for note in notes]
    assert values["victim"] > 0
    assert sorted(map(type, written), key=str) == [bool, float]
    assert values["victim"] in written
    for note in notes:
        note.write_text("[" * DEEP)
        assert sweep().rows[0].values == values
        assert [json.loads(one.read_text()) for one in notes] == written


def test_an_old_run_without_hashes_is_read(result, tmp_path):
    folder = result.save(tmp_path / "run")
    provenance = json.loads((folder / "provenance.json").read_text())
    del provenance["files"]
    (folder / "provenance.json").write_text(json.dumps(provenance))
    assert silvan.load(folder).summary == result.summary
    assert address(result.scenario)
