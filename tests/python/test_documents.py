"""Tests every command and Python block of the README and of docs/, and the values in their text.

`documents.py` runs the pages and updates the outputs that they show.
"""

import re
from fractions import Fraction

import pytest

import silvan
from conftest import ROOT
from documents import (
    LANGUAGES,
    NOT_TESTED,
    Instead,
    Plan,
    Reader,
    Skip,
    Value,
    blocks,
    check_values,
    pages,
    settle,
)

SHORT = ' --set duration="300 ms" --set warmup="100 ms"'
#: Overrides that reduce 77 long runs to eleven short ones.
FEW = ' --set congestion.marking.marking_rate=0 --set duration="520 ms" --jobs 2'
LOCAL = f"--executor slurm --cluster local{FEW}"
STUDY = "studies/t8-surfaces.toml"
DIRECT = "studies/direct-topologies.toml"
PACKETS = "studies/adaptive-packets.toml"
BRIEF = ' --set duration="60 us" --set warmup="20 us" --jobs 2'
TESTBED = "five seconds of the testbed, which the tests of the papers simulate"
CLONE = "needs a clone and builds it"
LONG = "minutes"

SKIPS = [
    Skip("docs/papers.md", "silvan papers run T4 --out", "the first command writes into the repository"),
    Skip("docs/extending.md", "git apply", "changes the source"),
    Skip("docs/performance.md", "make bench", CLONE),
    Skip("docs/internals.md", "make swarm", CLONE),
    Skip("docs/verification.md", ".venv/bin/python -m verify", CLONE),
    Skip("docs/engineer.md", "for a in", "needs a subnet manager"),
    Skip("docs/engineer.md", "sudo opensm", "needs a subnet manager"),
    Skip("docs/jobs.md", "scorep mpicc", "needs MPI and Score-P"),
    Skip("docs/engineer.md", "ibccquery", "needs a fabric"),
    Skip("docs/calibrate.md", "ib_write_lat", "needs two hosts with adapters"),
    Skip("docs/transfers.md", "silvan run web-search-128", "takes minutes"),
    Skip("docs/questions/web-search.md", "silvan sweep studies/web-search.toml", "takes minutes"),
    Skip("docs/questions/web-search.md", "silvan sweep studies/hpcc-slowdowns.toml", "takes minutes"),
    Skip("docs/questions/failed-uplink.md", "silvan sweep studies/failed-uplink.toml", "takes minutes"),
    Skip("docs/questions/failed-uplink.md", "silvan sweep studies/failed-uplink-648.toml", "takes minutes"),
    Skip("docs/questions/flap-victims.md", "silvan sweep", "takes minutes"),
    Skip("docs/questions/slow-receiver.md", "silvan sweep", "takes minutes"),
    Skip("docs/library.md", "export PKG_CONFIG_PATH", "needs an installed library"),
    Skip("docs/astra.md", "git -C ../astra-sim", "needs a checkout of ASTRA-sim"),
    Skip("docs/astra.md", "EXAMPLES=", "needs a checkout of ASTRA-sim"),
    Skip("docs/results.md", "polars.from_arrow", "needs polars, pandas and duckdb"),
]
INSTEADS = [
    Instead("README.md", "make demo ", f"make --dry-run -C {ROOT} demo ", CLONE),
    Instead("README.md", "make test ", f"make --dry-run -C {ROOT} test ", CLONE),
    Instead("docs/tutorial.md", "make demo", f"make --dry-run -C {ROOT} demo", CLONE),
    Instead("docs/report.md", "toml --out out/off", f"toml{SHORT} --out out/off", TESTBED),
    Instead("docs/report.md", "ib-cc --out out/on", f"ib-cc{SHORT} --out out/on", TESTBED),
    Instead("docs/report.md", '--forest "4.5 s"', "--forest busiest", TESTBED),
    Instead("docs/report.md", "--animate out/forest.gif", "--animate out/forest.gif --frames 6", LONG),
    Instead("docs/scenario.md", 'rate="5 Gbit/s"', f'rate="5 Gbit/s"{SHORT}', TESTBED),
    Instead("docs/questions.md", f"{DIRECT} --plot", f"{DIRECT} --help", LONG),
    Instead("docs/questions/direct-topologies.md", f"{DIRECT} --plot", f"{DIRECT} --help", LONG),
    Instead("docs/questions/feedback.md", "ways-back.toml --plot", "ways-back.toml --help", LONG),
    Instead("docs/questions/adaptive-routing.md", f"{PACKETS} --plot", f"{PACKETS}{BRIEF}", LONG),
    Instead(
        "docs/questions/direct-topologies.md", "direct-mechanisms.toml --plot",
        "direct-mechanisms.toml --help", LONG,
    ),
    Instead(
        "docs/questions/direct-topologies.md", "mechanisms-512.toml --plot",
        "mechanisms-512.toml --help", LONG,
    ),
    Instead(
        "docs/questions/direct-topologies.md", "direct-large.toml --plot",
        "direct-large.toml --help", LONG,
    ),
    Instead("docs/adaptive.md", "permutations=1000", "permutations=50", LONG),
    Instead("docs/jobs.md", "steps-and-trees.toml --plot", "steps-and-trees.toml --help", LONG),
    Instead("docs/questions/order-of-queues.md", "arbitration.toml --plot", "arbitration.toml --help", LONG),
    Instead("docs/questions/lifetime-of-hotspots.md", "dynamics.toml --plot", "dynamics.toml --help", LONG),
    Instead(
        "docs/questions/thirteen-mechanisms.md", "then-and-now.toml --plot",
        "then-and-now.toml --help", LONG,
    ),
    Instead("docs/questions/messages-of-victims.md", "now-victims.toml", "now-victims.toml --help", LONG),
    Instead("docs/questions/other-networks.md", "now-networks.toml", "now-networks.toml --help", LONG),
    Instead("docs/questions/other-networks.md", "now-32k.toml", "now-32k.toml --help", LONG),
    Instead("docs/questions/other-networks.md", "now-1024.toml", "now-1024.toml --help", LONG),
    Instead("docs/papers.md", "run T1 A2 ", "run A2 --quick ", LONG),
    Instead("docs/papers.md", "--all --jobs 4 ", "A2 --quick --jobs 2 ", LONG),
    Instead("docs/papers.md", "run F1 --seeds 20 ", "run A2 T4 --quick --seeds 2 ", LONG),
    Instead("docs/sweeps.md", f"{STUDY} --plot", f"{STUDY} --plot{FEW}", LONG),
    Instead("docs/sweeps.md", "--executor slurm --jobs 40", LOCAL, "needs a cluster"),
    Instead("docs/sweeps.md", "seeds=3,", 'seeds=3, overrides={"duration": "1 s", "warmup": "0 s"},', LONG),
]  # fmt: skip
PLAN = Plan(SKIPS, INSTEADS)


def fraction(part: float) -> str:
    """Format a share as a fraction with a denominator of at most 12 if the error is below 0.001."""
    near = Fraction(part).limit_denominator(12)
    return str(near) if abs(part - near) < 1e-3 else f"{part:.3f}"


def victim_falls_to(names, _shown):
    rate = {flow["flow"]: flow["received_gbit_s"] for flow in names["off"].summary["flows"]}
    return {"1/6": "sixth", "1/5": "fifth"}.get(fraction(rate["F1"] / 13.0), f"{rate['F1'] / 13.0:.3f}")


def shares_without_control(names, _shown):
    rates = [flow["received_gbit_s"] for flow in names["off"].summary["flows"][1:]]
    return ", ".join(fraction(rate / sum(rates)) for rate in rates)


def of_the_trees(**settings):
    """Run the scenario of the page about isolation."""
    settings = {key.replace("__", "."): value for key, value in settings.items()}
    return silvan.run(silvan.Scenario.load(ROOT / "scenarios" / "ecocc-trees.toml", settings)).summary


def row_of(**settings):
    """Measure the values of one row of the table about isolation, without those of the steady state."""

    def compute(_names, _shown):
        summary = of_the_trees(**settings)
        latency = next(row["p99_ns"] for row in summary["latency"] if row["class"] == "uniform")
        cells = [f"{summary['throughput_gbit_s']:.0f}", f"{latency / 1e3:.0f}"]
        if isolation := summary.get("isolation"):
            cells += [str(isolation["allocations"]), f"{isolation['mean_life_ns'] / 1e3:.1f}"]
        return " | ".join(cells)

    return compute


def exhausted(mechanism):
    """Count how often one special queue per port is not enough."""
    settings = {"congestion__mechanism": mechanism, "congestion__isolation__queues": "1"}
    return lambda _names, _shown: str(of_the_trees(**settings)["isolation"]["exhausted"])


#: The rows of the table in the page about isolation.
ORGANISATIONS = {
    r"one queue per input \(1Q\)": {"switch__architecture": "iq", "switch__queues": "single"},
    r"`none` \(VOQ\)": {},
    "OBQA, 4 queues": {"switch__queues": "output-modulo", "switch__queue_count": "4"},
    "DBBM, 8 queues": {"switch__queues": "destination-modulo", "switch__queue_count": "8"},
    "VOQnet": {"switch__queues": "per-destination", "switch__queue_buffer": "16 KiB"},
}


def contention(routing, width):
    """Compute contention for 50 permutations. Keep the shown value if all numbers are within 2 %."""

    def compute(_names, shown):
        tree = {"kind": "modified-k-ary-n-tree", "k": 16, "n": 3, "horizontal_width": width}
        found = silvan.contention(tree, routing, permutations=50)
        right = [found.maximum.mean(), found.mean.mean()]
        stated = [float(one) for one in shown.split(" | ")]
        near = all(abs(one / other - 1) < 0.02 for one, other in zip(right, stated, strict=True))
        return shown if near else " | ".join(f"{one:.2f}" for one in right)

    return compute


def runs_of(study):
    """Count the runs of a study in the reader's folder."""
    return lambda _names, _shown: str(len(silvan.sweeps.Study.load(study).points()))


VALUES = [
    Value("README.md", r"F1 falls to a (\w+) of its rate", victim_falls_to),
    Value("README.md", r"of a parking lot:\s+(.*?)\. With", shares_without_control),
    Value("docs/adaptive.md", r"\| default ports \| (.*) \|", contention("default", 0)),
    Value("docs/adaptive.md", r"\| `flow-count`, 0 \| (.*) \|", contention("flow-count", 0)),
    Value("docs/adaptive.md", r"\| `flow-count`, 1 \| (.*) \|", contention("flow-count", 1)),
    Value("docs/adaptive.md", r"\| `flow-count`, 2 \| (.*) \|", contention("flow-count", 2)),
    Value("docs/adaptive.md", r"\| `flow-count`, 3 \| (.*) \|", contention("flow-count", 3)),
    Value("docs/adaptive.md", r"\| `flow-count`, 4 \| (.*) \|", contention("flow-count", 4)),
    *(
        Value(
            "docs/isolation.md",
            rf"\| {name} \| \d+ \| (.*?) [| ]*\n",
            row_of(congestion__mechanism="none", **settings),
        )
        for name, settings in ORGANISATIONS.items()
    ),
    *(
        Value(
            "docs/isolation.md", rf"\| `{name}` \| \d+ \| (\d.*?) [| ]*\n", row_of(congestion__mechanism=name)
        )
        for name in ("ib-cc", "fbicm", "ccfit", "hfdi", "ecocc")
    ),
    Value("docs/isolation.md", r"lacks a free queue (\d+) times", exhausted("hfdi")),
    Value("docs/isolation.md", r"and `ecocc` (\d+)\s+times", exhausted("ecocc")),
    Value("docs/sweeps.md", r"executes these (\d+) runs", runs_of("studies/hotspot-rates.toml")),
    Value("docs/sweeps.md", r"the treatment variation Var; (\d+) runs", runs_of(STUDY)),
]


@pytest.mark.filterwarnings("ignore:.*non-interactive")
@pytest.mark.parametrize("page", pages())
def test_a_page_does_what_it_says(page, tmp_path, monkeypatch):
    reader = Reader(tmp_path / "reader", PLAN)
    reader.prepare()
    monkeypatch.chdir(reader.folder)
    reader.follow(page)
    settle(page, [*reader.differences, *check_values(page, VALUES, reader.names)])


@pytest.mark.parametrize("page", pages())
def test_every_block_says_what_it_is(page):
    for block in blocks(page):
        assert block.language in LANGUAGES, f"{block}: write ```sh, ```text or another of {LANGUAGES}"


def test_what_is_not_run_is_told_to_the_reader():
    every = [block for page in pages() for block in blocks(page)]
    for skip in SKIPS:
        told = [NOT_TESTED.fullmatch(block.after) for block in every if skip.of(block)]
        assert [note and note[1] for note in told] == [skip.why], (
            f"*Not run by the tests: {skip.why}.* below {skip}"
        )
    noted = [block for block in every if NOT_TESTED.fullmatch(block.after)]
    assert len(noted) == len(SKIPS), "a page says of a block that is run that it is not"


@pytest.mark.parametrize("instead", INSTEADS, ids=lambda one: f"{one.page}: {one.shown}")
def test_what_is_run_otherwise_is_still_there(instead):
    fits = [block for block in blocks(instead.page) if instead.shown in block.text]
    assert fits, f"{instead.page} no longer shows {instead.shown!r}"
    assert not any(block.language == "console" for block in fits), "what is shortened can show no output"


def test_every_value_is_of_a_page():
    assert {value.page for value in VALUES} <= set(pages())
    assert all(re.compile(value.pattern).groups == 1 for value in VALUES)


def test_wrong_values_are_found(tmp_path):
    printed = ["flow   rate", "F1   13.00", "F2    3.25", "", "done"]
    for shown, fits in (
        (["flow  rate", "F1  13.00", "..."], True),
        (["...", "F2 3.25", "...", "done"], True),
        (["...", "done"], True),
        (["...", "F1 13.00", "F2 3.26", "..."], False),
        (["...", "F2 3.25", "F1 13.00", "..."], False),
        (["flow rate", "F1 13.00"], False),
        (["F2 3.25", "..."], False),
    ):
        reader = Reader(tmp_path, PLAN)
        reader.compare("here", 0, shown, printed, "")
        assert (not reader.differences) == fits, shown


def test_a_command_that_fails_is_found(tmp_path):
    reader = Reader(tmp_path / "reader", PLAN)
    reader.prepare()
    with pytest.raises(AssertionError, match=r"nowhere\.toml: no such file"):
        reader.run("here", "silvan run nowhere.toml", None, 0, "")
    told = "Error: nowhere.toml: no such file; silvan scenarios list shows those that come with Silvan"
    reader.run("here", "silvan run nowhere.toml", [told], 0, "")
    assert not reader.differences
