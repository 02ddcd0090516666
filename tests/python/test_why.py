"""`silvan.why`: delays of planted causes, whose shares are known exactly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

import silvan
from silvan import cli
from silvan.delays import Label, Message, Step, Why, subjects

ROOT = Path(__file__).resolve().parents[2]
#: Transmission time of 1 MB at 100 Gbit/s without headers, ps.
MEGABYTE = 80_000_000

STAR = """
duration = "2 ms"
[topology]
kind = "star"
hosts = 4
link_rate = "100 Gbit/s"
"""
LEAVES = """
duration = "1 ms"
[topology]
kind = "two-level-fat-tree"
leaves = 2
spines = {spines}
hosts_per_leaf = 8
link_rate = "100 Gbit/s"
"""


def flow(sender: str, receiver: str, size: str = "1 MB", **more: str) -> str:
    """Return a flow of one message."""
    keys = {"from": sender, "to": receiver, "message": size, "total": size, **more}
    return "[[flow]]\n" + "".join(f'{key} = "{value}"\n' for key, value in keys.items())


def explained(toml: str, name: str | None = None, **options: Any) -> Why:
    """Run a scenario, and explain its slowest message."""
    result = silvan.run(silvan.Scenario.from_toml(toml))
    found = silvan.why(result, flow=name, **options)
    return found[0]


def shares(found: Why) -> dict[tuple[str, str], int]:
    """Return the causes of a delay: label and place, and picoseconds."""
    explanation = found.explanation
    total = sum(cause.ps for cause in explanation.causes) + explanation.pipeline
    assert total == explanation.delay
    assert sum(piece.length for piece in explanation.pieces) == explanation.duration
    return {(cause.label.value, cause.place): cause.ps for cause in explanation.causes}


def test_two_equal_messages_share_the_last_link() -> None:
    found = explained(STAR + flow("H1", "H3") + flow("H2", "H3"))
    assert shares(found) == {("output-busy", "S1:3->H3"): MEGABYTE}
    assert found.explanation.delay == MEGABYTE
    ((owner, ps),) = found.explanation.causes[0].owners
    assert (owner.host, ps) == (0, MEGABYTE), "the other flow is the only owner"


def test_slow_receiver() -> None:
    found = explained(STAR + '[host]\ndrain_rate = "25 Gbit/s"\n' + flow("H1", "H3"))
    assert shares(found) == {("slow-receiver", "H3"): 3 * MEGABYTE}


@pytest.mark.parametrize(("host", "place"), [("H1", "H1->S1:1"), ("H3", "S1:3->H3")])
def test_cable_at_a_quarter_of_its_rate(host: str, place: str) -> None:
    event = f'[[event]]\nkind = "rate"\nlinks = ["{host}"]\nrate = "25 Gbit/s"\nstart = "0 ns"\n'
    assert shares(explained(STAR + flow("H1", "H3") + event)) == {("slow-link", place): 3 * MEGABYTE}


def test_slow_injection() -> None:
    found = explained(STAR + '[host]\ninjection_rate = "50 Gbit/s"\n' + flow("H1", "H3"))
    causes = shares(found)
    assert set(causes) == {("injection", "H1")}
    # The last packet leaves the host at the rate of the link.
    assert causes["injection", "H1"] == pytest.approx(MEGABYTE, rel=1e-3)
    assert found.explanation.pipeline == 0


def test_control_packets_delay_data_in_their_host() -> None:
    acks = '[congestion]\nnotification = "ack-each"\nreaction = { kind = "static-window", packets = 500 }\n'
    acks += flow("H1", "H3", name="data") + flow("H2", "H1")
    host = '[host]\ninjection_rate = "50 Gbit/s"\n'
    usual = explained(STAR + host + acks, "data").explanation.delay
    found = explained(STAR + host + "injection_includes_control = true\n" + acks, "data")
    causes = shares(found)
    assert set(causes) == {("injection", "H1"), ("output-busy", "H1->S1:1")}
    # H1 acknowledges 489 packets. Half of the time of each is that of the acknowledgement on the link.
    longer = 489 * 64 * 160
    assert found.explanation.delay - usual == pytest.approx(longer, rel=0.02)
    assert causes["output-busy", "H1->S1:1"] == pytest.approx(longer / 2, rel=0.02)


def test_small_window() -> None:
    window = '[congestion]\nnotification = "ack-each"\n'
    window += '[congestion.reaction]\nkind = "static-window"\npackets = 10\n'
    slow = STAR + 'link_delay = "5 us"\n'
    found = explained(slow + window + flow("H1", "H3", "204800 B"))
    assert shares(found) == {("window", "H1"): found.explanation.delay}
    # Nine of ten windows wait for a round trip: four link delays, a switch in both directions, a packet and
    # its answer.
    window_ps = 10 * 163_840
    round_trip = found.explanation.delay / 9 + window_ps
    assert 4 * 5_000_000 + 2 * 100_000 < round_trip < 4 * 5_000_000 + 2 * 100_000 + 2 * 163_840


def test_lost_packet() -> None:
    down = '[[event]]\nkind = "down"\nlinks = ["H3"]\nstart = "10 us"\nlasts = "1 us"\n'
    recovery = '[recovery]\nkind = "selective-repeat"\ntimeout = "100 us"\n'
    found = explained(STAR + flow("H1", "H3", "200 kB") + down + recovery)
    causes = shares(found)
    assert {label for label, _ in causes} == {"loss"}
    assert found.explanation.causes[0].loss == "link-down"
    assert "the link went down" in str(found)
    assert found.explanation.delay == pytest.approx(100_000_000, rel=0.1), "the timeout"


def test_hash_collision_needs_an_idle_path() -> None:
    network = LEAVES.format(spines=2) + "[ecmp]\n"
    both = flow("H1", "H9") + flow("H4", "H12")
    assert set(shares(explained(network + both))) == {("hash-collision", "L1.1:9->L2.1:1")}
    # Two more flows use the other path.
    busy = both + flow("H2", "H10") + flow("H3", "H11")
    assert set(shares(explained(network + busy, "H1->H9"))) == {("output-busy", "L1.1:9->L2.1:1")}


@pytest.mark.parametrize("control", ["", '[flow_control]\nkind = "pfc"\n'])
def test_victim_behind_an_incast(control: str) -> None:
    """A victim waits on the uplink that it shares with an incast, whose root is the link of the receiver."""
    incast = "".join(
        f'[[flow]]\nname = "incast{number}"\nfrom = "H{number}"\nto = "H9"\n'
        for number in (1, 2, 11, 12, 13, 14)
    )
    buffer = '[switch]\nbuffer = "64 KiB"\n'
    victim = flow("H6", "H10", "500 kB", name="victim")
    found = explained(LEAVES.format(spines=1) + buffer + control + incast + victim, "victim")
    causes = shares(found)
    root = ("output-busy", "L1.2:1->H9")
    assert causes[root] > 0.9 * found.explanation.delay
    cause = found.explanation.causes[0]
    assert cause.chain[-2:] == ("L2.1:2->L1.2:9", "L1.2:1->H9")
    assert {owner.destination for owner, _ in cause.owners} == {8}, "only flows of the incast"
    assert abs(found.explanation.pipeline) < 0.01 * found.explanation.delay
    assert "reached through: L2.1:2->L1.2:9 <- L1.2:1->H9" in str(found)


@pytest.mark.parametrize("mechanism", ["dcqcn", "timely"])
def test_reaction_names_the_queue_that_it_noticed(mechanism: str) -> None:
    incast = "".join(flow(f"H{number}", "H9", "500 kB", name=f"f{number}") for number in range(1, 7))
    found = explained(LEAVES.format(spines=1) + f'[congestion]\nmechanism = "{mechanism}"\n' + incast)
    shares(found)
    (cause,) = (cause for cause in found.explanation.causes if cause.label is Label.PACING)
    assert cause.ps > 0.3 * found.explanation.delay
    assert cause.signal is not None
    assert (cause.signal.queue, cause.signal.is_mark) == ("L1.1:9->L2.1:1", mechanism == "dcqcn")
    assert all(owner.destination == 8 for owner, _ in cause.owners)


@pytest.mark.parametrize("transfers", ["", "[measure]\ntransfers = true\n"])
def test_messages_have_numbers_in_order_of_generation(transfers: str) -> None:
    four = flow("H1", "H3", "50 kB", name="four").replace('total = "50 kB"', 'total = "200 kB"')
    result = silvan.run(silvan.Scenario.from_toml(STAR + transfers + four + flow("H2", "H3", start="5 us")))
    starts = [silvan.why(result, message=one)[0].explanation.subject.start for one in (1, 2, 5)]
    assert starts == sorted(starts)
    (second,) = silvan.why(result, flow="four", message=2)
    assert isinstance(second.explanation.subject, Message)
    assert (second.explanation.subject.flow.host, second.explanation.subject.bytes) == (0, 50_000)
    with pytest.raises(silvan.SilvanError, match="--message 5: no such message; 4 messages were delivered"):
        silvan.why(result, flow="four", message=5)


@pytest.mark.parametrize("transfers", ["", "[measure]\ntransfers = true\n"])
def test_name_selects_one_of_several_flows_between_the_same_hosts(transfers: str) -> None:
    pattern = '[[traffic]]\nname = "pattern"\nhosts = ["H2"]\nmessage = "10 kB"\nrate = "5 Gbit/s"\n'
    pattern += 'pattern = { kind = "hotspots", to = ["H3"] }\n'
    flows = flow("H1", "H3", name="long") + flow("H1", "H3", "10 kB", name="short")
    result = silvan.run(silvan.Scenario.from_toml(STAR + transfers + flows + pattern))
    for name in ("long", "short", "pattern"):
        for found in silvan.why(result, flow=name, slowest=3):
            assert found.subject.startswith(f"{name} (")
    assert len({found.subject for found in silvan.why(result, flow="H1->H3", slowest=3)}) == 2


def test_own_messages_in_front_are_named_as_such() -> None:
    (found,) = silvan.why(silvan.run("pfc-victim", measure__transfers=True), flow="victim")
    (busy,) = (cause for cause in found.explanation.causes if cause.label is Label.OUTPUT_BUSY)
    assert [flow for flow, _ in busy.owners] == [found.explanation.subject.flow]
    (line,) = found.lines_of(busy)
    assert line.endswith("H17->L1.3:1 was busy with other messages of the flow")


def test_own_packets_in_a_full_buffer_are_named() -> None:
    lossy = '[flow_control]\nkind = "pfc"\nlossy_lanes = [0]\n[switch]\nbuffer = "32 KiB"\n'
    recovery = '[recovery]\nkind = "go-back-n"\ntimeout = "100 us"\n'
    flows = "".join(flow(f"H{number}", "H4", "300 kB") for number in (1, 2, 3))
    found = explained(STAR + lossy + recovery + flows)
    cause = found.explanation.causes[0]
    assert cause.loss == "full-buffer"
    assert found.lines_of(cause)[1].startswith("in the buffer: ")


def test_flows_of_the_same_name_are_one_owner() -> None:
    """The messages of an all-to-all between two ranks have flows of their own."""
    result = silvan.run("job-kernel")
    (found,) = silvan.why(result, job="fft")
    is_repeated = False
    for cause, told in zip(found.explanation.causes, found.to_dict()["causes"], strict=True):
        names = [owner["flow"] for owner in told["owners"]]
        assert len(names) == len(set(names))
        assert sum(owner["ps"] for owner in told["owners"]) == sum(ps for _, ps in cause.owners)
        is_repeated |= len(names) < len(cause.owners)
    assert is_repeated


def test_chain_names_each_link_once() -> None:
    """With one queue per input, packets also wait behind others of the same input, for the same link."""
    incast = "".join(flow(f"H{number}", "H9") for number in (1, 2, 3, 11, 12, 13))
    model = '[switch]\nbuffer = "64 KiB"\nqueues = "single"\n'
    network = LEAVES.format(spines=1) + model
    found = explained(network + incast + flow("H6", "H10", "500 kB"), "H6->H10")
    chain = found.explanation.causes[0].chain
    assert chain[-1] == "L1.2:1->H9"
    assert len(chain) == len(set(chain)) > 1


def test_shares_do_not_exceed_the_waiting_time() -> None:
    """A sprayed message waits for some packets while it sends others, longer than it is delayed."""
    spraying = '[ecmp]\nspraying = "oblivious"\n[packet]\nmtu = "4096 B"\n'
    flows = "".join(flow(f"H{number}", f"H{number + 8}", "200 kB") for number in range(1, 9))
    result = silvan.run(silvan.Scenario.from_toml(LEAVES.format(spines=8) + spraying + flows))
    overlapping = []
    for found in silvan.why(result, slowest=8):
        explanation = found.explanation
        assert explanation.whole >= sum(cause.ps for cause in explanation.causes)
        for line in found.sentences:
            percent = line.removeprefix("- ").partition(" %")[0]
            assert not percent.isdigit() or int(percent) <= 100, line
        if explanation.pipeline < -0.01 * explanation.delay:
            overlapping.append(found)
    assert overlapping
    assert "of necessary transmissions took place meanwhile" in overlapping[0].sentences[1]
    assert overlapping[0].sentences[2].startswith("Of the waiting time, ")


@pytest.mark.parametrize("scenario", ["ndr-rtt", "roce-telemetry"])
def test_reactions_that_probe_name_the_queue(scenario: str) -> None:
    (found,) = silvan.why(silvan.run(scenario, measure__transfers=True))
    cause = found.explanation.causes[0]
    assert cause.label is Label.PACING
    assert cause.signal is not None
    assert not cause.signal.is_mark


def test_packets_that_a_link_repeats() -> None:
    """Each error costs the transmission of the packet, the way back of the report, and the repetition."""
    retry = "[link]\nerror_rate_ppb = 200000000\n[link.retry]\n"
    found = explained(STAR + retry + flow("H1", "H3", "2 MB"))
    assert found.explanation.delay > 4 * MEGABYTE
    errors = sum(ps for (label, _), ps in shares(found).items() if label == "link-errors")
    assert errors > 0.98 * found.explanation.delay
    assert abs(found.explanation.pipeline) < 0.02 * found.explanation.delay


def test_owners_behind_a_lack_of_credit_use_the_place_themselves() -> None:
    """All flows of an incast own the time of the victim, none longer than its messages take."""
    incast = "".join(flow(f"H{number}", "H9", name=f"i{number}") for number in (1, 2, 3, 11, 12, 13))
    victim = flow("H6", "H10", "500 kB", name="victim")
    buffer = '[switch]\nbuffer = "64 KiB"\n'
    found = explained(LEAVES.format(spines=1) + buffer + incast + victim, "victim")
    shares(found)
    cause = found.explanation.causes[0]
    assert (cause.label, cause.place) == (Label.OUTPUT_BUSY, "L1.2:1->H9")
    assert {owner.host for owner, _ in cause.owners} == {0, 1, 2, 10, 11, 12}
    # The times between packets belong to the next one.
    assert max(ps for _, ps in cause.owners) < 1.05 * MEGABYTE
    assert sum(ps for _, ps in cause.owners) == cause.ps


def test_waits_of_announcements_are_followed() -> None:
    """An announcement that waits in the queue of an incast is late because of the incast."""
    incast = "".join(
        flow(f"H{number}", "H9", "300 kB", name=f"i{number}") for number in (1, 2, 3, 11, 12, 13)
    )
    more = '[adaptive_routing]\n[switch]\nbuffer = "64 KiB"\n'
    late = flow("H4", "H9", "50 kB", name="late", start="30 us")
    found = explained(LEAVES.format(spines=2) + more + incast + late, "late")
    causes = shares(found)
    assert causes["output-busy", "L1.2:1->H9"] > 0.95 * found.explanation.delay
    assert 0 < causes["announcement", "H4"] < 0.05 * found.explanation.delay


def test_undelayed_message() -> None:
    found = explained(STAR + flow("H1", "H3"))
    assert (found.explanation.delay, found.explanation.causes) == (0, ())
    assert found.sentences[-1] == "Nothing delayed it."


MODELS = [
    "",
    '[switch]\narchitecture = "cioq"\n',
    '[switch]\narchitecture = "iq"\n',
    '[switch]\nqueues = "single"\n',
    '[switch]\nqueues = "per-destination"\n',
    '[switch]\narbitration = "fcfs"\n',
    '[switch]\nforwarding = "store-and-forward"\n',
    '[flow_control]\nkind = "pfc"\n',
    '[flow_control]\nkind = "on-off"\n',
    "[link]\nerror_rate_ppb = 20000\n[link.retry]\n",
    *(
        f'[congestion]\nmechanism = "{name}"\n'
        for name in ("ib-cc", "fbicm", "ccfit", "ecocc", "hpcc", "swift", "timely", "dctcp", "nscc", "rccc")
    ),
]


@pytest.mark.parametrize("model", MODELS)
def test_causes_partition_the_time_exactly(model: str) -> None:
    """Every message of a congested network is explained, and its pieces have no gaps and overlaps."""
    traffic = "".join(
        flow(f"H{number}", "H9" if number < 5 else f"H{number + 8}", "100 kB") for number in range(1, 8)
    ) + flow("H10", "H9", "100 kB")
    result = silvan.run(silvan.Scenario.from_toml(LEAVES.format(spines=1) + model + traffic))
    found = silvan.why(result, slowest=20)
    assert len(found) == 8
    for one in found:
        shares(one)
    assert found[0].explanation.delay > 0


def test_results_name_the_slowest_transfers() -> None:
    """With recorded transfers, only the time of the slowest ones is recorded, and the delays agree."""
    toml = LEAVES.format(spines=1) + "[measure]\ntransfers = true\n"
    toml += "".join(flow(f"H{number}", "H9", "100 kB", start=f"{number * 50} us") for number in range(1, 5))
    toml += flow("H5", "H9", "100 kB", start="150 us")
    result = silvan.run(silvan.Scenario.from_toml(toml))
    wanted = subjects.of_results(result)
    assert wanted is not None
    found = silvan.why(result, slowest=2)
    slowest = sorted((one.delay for one in wanted), reverse=True)[:2]
    assert [one.explanation.delay for one in found] == pytest.approx(slowest, abs=2000)
    assert found[0].explanation.subject.start >= 150_000_000


def ring(ranks: int, slow: int, extra_ns: int) -> str:
    """Return an all-reduce by ring in GOAL, before which a rank computes longer than the others."""
    parts = [f"num_ranks {ranks}"]
    for rank in range(ranks):
        lines = [f"c: calc {50_000 + (extra_ns if rank == slow else 0)}"]
        for step in range(2 * (ranks - 1)):
            before = f"r{step - 1}" if step else "c"
            lines += [
                f"s{step}: send 100000b to {(rank + 1) % ranks} tag {step}",
                f"r{step}: recv 100000b from {(rank - 1) % ranks} tag {step}",
                f"s{step} requires {before}",
                f"r{step} requires {before}",
            ]
        parts.append(f"rank {rank} {{\n" + "\n".join(lines) + "\n}")
    return "\n".join(parts) + "\n"


@pytest.mark.parametrize("slow", [0, 2])
def test_straggling_rank_of_a_ring(tmp_path: Path, slow: int) -> None:
    """The job is late by the additional computation of one rank, although all ranks end late."""
    (tmp_path / "ring.goal").write_text(ring(4, slow, 30_000))
    job = f'[[job]]\nname = "ring"\nprogram = {{ kind = "trace", file = "{tmp_path / "ring.goal"}" }}\n'
    result = silvan.run(silvan.Scenario.from_toml(STAR + job))
    (found,) = silvan.why(result, job="ring")
    assert shares(found) == {("compute", f"rank {slow} of ring"): 30_000_000}
    assert found.explanation.duration == round(result.summary["jobs"][0]["span_ns"] * 1000)
    assert f"rank {slow} of ring computed longer" in found.sentences[2]
    subject = found.explanation.subject
    assert isinstance(subject, Step)
    arrivals = [rank.arrival for rank in subject.ranks]
    assert arrivals == [80_000_000 if rank == slow else 50_000_000 for rank in range(4)]
    # All ranks end at about the same time, so the late rank waits least.
    assert min(subject.ranks, key=lambda rank: rank.waiting).rank == slow
    assert f"within 30 us, rank {slow} last" in found.sentences[1]


def test_operations_of_a_job() -> None:
    result = silvan.run("job-collective")
    (whole,) = silvan.why(result, job="all-reduce")
    shares(whole)
    rows = result.numpy("collectives")
    (found,) = silvan.why(result, job="all-reduce", step=3)
    shares(found)
    assert found.explanation.duration == round(float(rows["end_ns"][2] - rows["start_ns"][2]) * 1000)
    schema = json.loads((ROOT / "docs" / "why.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(found.to_dict(), schema)
    with pytest.raises(silvan.SilvanError, match="--step 11: all-reduce has 10 collective operations"):
        silvan.why(result, job="all-reduce", step=11)
    with pytest.raises(silvan.SilvanError, match="--job no: no such job; the run has: all-reduce"):
        silvan.why(result, job="no")


def test_json_has_the_published_form() -> None:
    schema = json.loads((ROOT / "docs" / "why.schema.json").read_text(encoding="utf-8"))
    incast = "".join(flow(f"H{number}", "H9", "500 kB") for number in range(1, 5))
    found = explained(LEAVES.format(spines=1) + '[congestion]\nmechanism = "dcqcn"\n' + incast)
    value = json.loads(found.to_json())
    jsonschema.validate(value, schema)
    assert value["delay_ps"] == value["pipeline_ps"] + sum(cause["ps"] for cause in value["causes"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"message": 0}, "message = 0: must be 1 or more"),
        ({"slowest": -1}, "slowest = -1: must be 1 or more"),
        ({"step": 1}, "step: needs a job"),
        ({"job": "ring", "flow": "one"}, "flow, message, slowest: have no effect with a job"),
        ({"message": 1, "slowest": 2}, "slowest: has no effect with a message"),
    ],
)
def test_arguments_that_have_no_effect_are_refused(options: dict[str, Any], message: str) -> None:
    result = silvan.run(silvan.Scenario.from_toml(STAR + flow("H1", "H3", name="one")))
    with pytest.raises(silvan.SilvanError, match=message):
        silvan.why(result, **options)


def test_errors_say_what_would_be_valid() -> None:
    result = silvan.run(silvan.Scenario.from_toml(STAR + flow("H1", "H3", name="one")))
    with pytest.raises(silvan.SilvanError, match=r"--flow two: no such flow; give its name \(one\)"):
        silvan.why(result, flow="two")
    with pytest.raises(silvan.SilvanError, match="no message of H2->H3 was delivered"):
        silvan.why(result, flow="H2->H3")
    with pytest.raises(silvan.SilvanError, match=r"; explain a collective operation of the job \(step\)"):
        silvan.why(silvan.run("job-collective"), job="all-reduce", most_departures=10)
    hint = r"more than 10 packets cross links .*; or record transfers \(measure.transfers = true\)"
    with pytest.raises(silvan.SilvanError, match=hint):
        silvan.why(result, most_departures=10)


def test_report_of_a_run_that_delivered_nothing(tmp_path: Path) -> None:
    """A run without messages to explain does not prevent the report of it and of others."""
    runs = []
    for name, size in (("none", "1 GB"), ("some", "1 MB")):
        toml = STAR + "[measure]\ntransfers = true\n" + flow("H1", "H3", size) + flow("H2", "H3", size)
        silvan.run(silvan.Scenario.from_toml(toml)).save(tmp_path / name)
        runs.append(str(tmp_path / name))
    page = tmp_path / "report.html"
    shown = CliRunner().invoke(cli.application(), ["report", *runs, "--why", "1", "--out", str(page)])
    assert shown.exit_code == 0, shown.output
    assert "no message was delivered during the run" in shown.output
    text = page.read_text(encoding="utf-8")
    assert ('id="causes-0"' in text, 'id="causes-1"' in text) == (False, True)
