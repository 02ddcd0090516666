"""Tests the traffic and the roots behind counters against known answers, and invalid dumps."""

from __future__ import annotations

import json

import numpy as np
import pytest

import silvan
from conftest import FABRICS, command
from silvan.fabric.collisions import routes
from silvan.fabric.inference import measured, roots, traffic
from silvan.hardware import readers, units

TREE = FABRICS / "4ary3tree-h64" / "updn"
STAR = """
name = "star"
duration = "1 ms"
[topology]
kind = "star"
hosts = {hosts}
link_rate = "100 Gbit/s"
[[traffic]]
pattern = {{ kind = "uniform" }}
rate = "1 Gbit/s"
"""


@pytest.fixture(scope="module")
def tree():
    return routes.read(TREE)


@pytest.fixture
def star(tmp_path):
    """Return a function that writes a star, and returns its file."""

    def write(hosts):
        path = tmp_path / "star.toml"
        path.write_text(STAR.format(hosts=hosts))
        return path

    return write


def loads(fabric, pairs):
    """Return the bytes of each link for the bytes of pairs of hosts, by name."""
    number = {name: at for at, name in enumerate(fabric.hosts)}
    sources, destinations = (np.array([number[pair[end]] for pair in pairs]) for end in (0, 1))
    of_pair, of_link, share = fabric.ways(sources, destinations)
    octets = np.array(list(pairs.values()), dtype=float)
    return np.bincount(of_link, weights=octets[of_pair] * share, minlength=len(fabric.links)).astype(np.int64)


def dump(fabric, octets, waits=None, *, file=None):
    """Return perfquery text of links with these bytes and, if given, ticks of waiting."""
    lines = []
    for at, end in enumerate(fabric.senders):
        lines.append(
            f"# Port extended counters: Lid {end.lid} port {end.number} (CapMask: 0x5A00 CapMask2: 0x2)"
        )
        # Any number of dots.
        lines.append(f"PortXmitData:{'.' * (at % 7)}{int(octets[at]) // 4}")
        lines.append(f"PortRcvData:...................{int(octets[fabric.opposite[at]]) // 4}")
        if waits is not None:
            lines.append(f"PortXmitWait:..................{int(waits[at])}")
    text = "\n".join([*lines, ""])
    if file is not None:
        file.write_text(text)
    return text


def infer(paths, fabric, pairs, tmp_path, waits=None, **options):
    dump(fabric, loads(fabric, pairs), waits, file=tmp_path / "after")
    return silvan.fabric.infer(paths, after=tmp_path / "after", **{"error": 0.0, "run": False, **options})


def test_an_incast_is_determined_exactly(tree, tmp_path):
    senders = {f"node-{n:04}": 4_000_000 * n for n in (17, 20, 33, 47, 50)}
    told = infer(TREE, tree, {(name, "node-0000"): octets for name, octets in senders.items()}, tmp_path)
    assert told["pairs_possible"] == 5
    assert told["free_parameters"] == 0
    for pair in told["pairs"]:
        assert pair["to"] == "node-0000"
        assert pair["bytes"] == pytest.approx(senders[pair["from"]], abs=50)
        assert pair["high_bytes"] - pair["low_bytes"] < 100
    assert told["mismatch"] < 1e-6


def test_totals_of_two_hosts_determine_their_traffic(star, tmp_path):
    path = star(2)
    told = infer(path, routes.read(path), {("H1", "H2"): 8_000_000, ("H2", "H1"): 4_000_000}, tmp_path)
    assert {(one["from"], round(one["bytes"])) for one in told["pairs"]} == {
        ("H1", 8_000_000),
        ("H2", 4_000_000),
    }
    assert told["free_parameters"] == 0


def test_totals_of_three_hosts_leave_one_number_free(star, tmp_path):
    path = star(3)
    fabric = routes.read(path)
    pairs = {(f"H{a}", f"H{b}"): 4_000_000 * (3 * a + b) for a in (1, 2, 3) for b in (1, 2, 3) if a != b}
    told = infer(path, fabric, pairs, tmp_path)
    assert told["pairs_possible"] == 6
    assert told["free_parameters"] == 1
    assert [one["bytes"] for one in told["pairs"]] == [None] * 6
    for one in told["pairs"]:
        assert one["low_bytes"] <= pairs[one["from"], one["to"]] <= one["high_bytes"]
    # H1 sends nothing to H3, so its total is that of one pair.
    del pairs["H1", "H3"], pairs["H2", "H3"]
    told = infer(path, fabric, pairs, tmp_path)
    assert told["free_parameters"] == 0
    assert all(one["bytes"] == pytest.approx(pairs[one["from"], one["to"]], abs=50) for one in told["pairs"])


@pytest.mark.parametrize("hosts", [3, 4, 7])
def test_a_ring_on_a_star_is_refused(hosts, star, tmp_path):
    path = star(hosts)
    ring = {(f"H{n + 1}", f"H{(n + 1) % hosts + 1}"): 4_000_000 for n in range(hosts)}
    told = infer(path, routes.read(path), ring, tmp_path, top=50)
    assert told["free_parameters"] == hosts * (hosts - 1) - (2 * hosts - 1)
    assert all(one["bytes"] is None for one in told["pairs"])
    assert all(
        one["low_bytes"] < 50 and one["high_bytes"] == pytest.approx(4_000_000, abs=50)
        for one in told["pairs"]
    )


def waiting(fabric, *names, share=0.5, seconds=0.01):
    """Return ticks of the ports of links that waited for a share of the time."""
    ticks = np.zeros(len(fabric.links), dtype=np.int64)
    for name in names:
        at = fabric.links.index(name)
        ticks[at] = units.ticks(share * seconds * 1e9, fabric.rates[at])
    return ticks


def route(fabric, source, destination):
    number = {name: at for at, name in enumerate(fabric.hosts)}
    ways = fabric.ways(np.array([number[source]]), np.array([number[destination]]))
    return [fabric.links[at] for at in ways[1]]


def test_waits_lead_to_a_busy_output_and_to_its_victim(tree, tmp_path):
    full = int(tree.rates[0] * 1e9 * 0.01 / 8)
    senders = {"node-0001": full * 43 // 100, "node-0002": full * 43 // 100, "node-0017": full * 11 // 100}
    pairs = {(name, "node-0000"): octets for name, octets in senders.items()}
    pairs["node-0018", "node-0004"] = full * 30 // 100
    last = route(tree, "node-0017", "node-0000")[-1]
    ports = {link for name in senders for link in route(tree, name, "node-0000")[:-1]}

    told = infer(TREE, tree, pairs, tmp_path, waiting(tree, *ports), seconds=0.01)
    assert told["waiting_known"]
    [root] = told["roots"]
    assert (root["link"], root["kind"]) == (last, "busy")
    assert root["utilization"] == pytest.approx(0.97, abs=0.01)
    assert {one["link"] for one in root["waiting"]} == ports
    assert {one["host"] for one in root["contributors"]} == {*senders, "node-0018"}
    shares = {one["host"]: one["share"] for one in root["contributors"]}
    assert shares["node-0001"] == pytest.approx(43 / 97, abs=0.01)
    # Node 17 may have sent to node 4 instead of node 18, but not all of its bytes.
    assert shares["node-0017"] is None
    assert [(one["from"], one["to"], one["bytes"]) for one in root["victims"]] == [
        ("node-0018", "node-0004", None)
    ]
    assert root["victims"][0]["low_bytes"] == pytest.approx(full * 0.19, rel=0.01)
    assert root["victims"][0]["high_bytes"] == pytest.approx(full * 0.30, rel=0.01)


def test_a_slow_receiver_and_a_bad_cable(tree, tmp_path):
    full = int(tree.rates[0] * 1e9 * 0.01 / 8)
    way = route(tree, "node-0017", "node-0000")
    pairs = {("node-0017", "node-0000"): full // 4}
    told = infer(TREE, tree, pairs, tmp_path, waiting(tree, *way), seconds=0.01)
    assert [(root["link"], root["kind"]) for root in told["roots"]] == [(way[-1], "slow receiver")]
    told = infer(TREE, tree, pairs, tmp_path, waiting(tree, *way[:3]), seconds=0.01)
    assert [(root["link"], root["kind"]) for root in told["roots"]] == [(way[2], "cable or receiver")]
    assert {one["link"] for one in told["roots"][0]["waiting"]} == set(way[:2])
    told = infer(TREE, tree, pairs, tmp_path, waiting(tree), seconds=0.01)
    assert told["roots"] == []


def test_ports_that_wait_for_each_other_are_a_cycle():
    ring = silvan.fabric.collisions.routes.read("scenarios/ring-deadlock.toml")
    hosts = len(ring.hosts)
    own = traffic.system(
        ring,
        loads(ring, {(ring.hosts[n], ring.hosts[(n + 2) % hosts]): 4000 * 1000 for n in range(hosts)}),
        None,
        0.0,
    )
    inner = np.flatnonzero(ring.inner)
    used = own.all_routes.toarray()[inner].any(axis=1)
    waits = np.zeros(len(ring.links))
    waits[inner[used]] = 1.0
    found = roots.find(own, np.full(len(ring.links), 0.1), waits)
    assert {root.kind for root in found} == {"cycle"}


def test_units(tree, tmp_path):
    full = int(tree.rates[0] * 1e9 * 0.01 / 8)
    pairs = {("node-0017", "node-0000"): full // 4}
    told = infer(TREE, tree, pairs, tmp_path, seconds=0.002)
    assert any(note.startswith("units? ") and "at 125% of its rate" in note for note in told["notes"])
    assert told["forward"] is None
    told = infer(TREE, tree, pairs, tmp_path, seconds=0.01, is_line_rate=True)
    assert any("no link reached 30% of its rate" in note for note in told["notes"])
    told = infer(TREE, tree, pairs, tmp_path, seconds=0.01)
    assert not any("units?" in note for note in told["notes"])


def test_the_difference_of_dumps_counts(tree, tmp_path):
    pairs = {("node-0017", "node-0000"): 4_000_000}
    before = np.arange(len(tree.links)) * 4000
    dump(tree, before, file=tmp_path / "before")
    dump(tree, before + loads(tree, pairs), file=tmp_path / "after")
    told = silvan.fabric.infer(TREE, before=tmp_path / "before", after=tmp_path / "after", run=False)
    assert [(one["from"], round(one["bytes"])) for one in told["pairs"]] == [("node-0017", 4_000_000)]
    with pytest.raises(
        silvan.FabricError, match=r"after|before, line \d+: xmit_bytes of port 1 of LID \d+ fell from"
    ):
        silvan.fabric.infer(TREE, before=tmp_path / "after", after=tmp_path / "before", run=False)
    assert told["seconds"] is None
    assert told["roots"] == []


def test_formats_agree(tree, tmp_path):
    octets = loads(tree, {("node-0017", "node-0000"): 4_000_000, ("node-0018", "node-0001"): 8_000_000})
    perfquery, prometheus, table = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    dump(tree, octets, file=perfquery)
    lines, rows = (
        ["# TYPE node_infiniband_port_data_transmitted_bytes_total counter"],
        ["node,port,PortXmitData"],
    )
    for at, end in enumerate(tree.senders):
        labels = f'device="mlx5_0",instance="{end.node}:9100",port="{end.number}"'
        if at not in tree.first:
            labels = f'port="{end.number}", device="{end.node}"'
        lines.append(
            f"node_infiniband_port_data_transmitted_bytes_total{{{labels}}} {octets[at]:.6e} 1700000000000"
        )
        rows.append(f"{end.node},{end.number},{octets[at] // 4}")
    prometheus.write_text("\n".join(lines))
    table.write_text("\r\n".join(rows))
    found = [measured.difference(tree, None, readers.read(path)) for path in (perfquery, prometheus, table)]
    assert all((one.octets == octets).all() for one in found)


HEAD = "# Port extended counters: Lid 1 port 1\n"
METRIC = "node_infiniband_port_data_transmitted_bytes_total"
#: Invalid dumps, and a part of the message.
WRONG = {
    "PortXmitData:....1\n# Port extended counters: Lid 1 port 1": "line 1: PortXmitData is above the first",
    HEAD + "PortXmitData:....foo": "line 2: PortXmitData is `foo`; it must be a whole",
    HEAD + "PortXmitData:....-1": "line 2: PortXmitData is `-1`",
    HEAD + "PortXmitData:....99999999999999999999999": "at most 64 bits",
    HEAD + "PortXmitData:....1e999999999": "line 2: PortXmitData is `1e999999999`",
    HEAD + "PortXmitData:1\nPortXmitData:2": "line 3: xmit_bytes of port 1 of LID 1",
    "# Port extended counters: DR path 0,1 port 1\n": "path 0,1 port 1` has no `Lid N port N`",
    "# Port counters: Lid 1 port 1\nXmtData:....4294967295": "line 2: XmtData is 4,294,967,295, at which",
    "# Port extended counters: Lid 60000 port 1\nPortXmitData:....1": "none of its 1 ports belongs to",
    HEAD + "SymbolErrorCounter:....1": "has no counters of ports, such as",
    METRIC + '{device="a",port="x"} 1': "line 1: needs the labels",
    METRIC + '{device="a",port="1} 1': "is not a label",
    METRIC + '{device="a",port="1"} NaN': "is `NaN`; it must be a whole",
    METRIC + '{device="a",port="1"} 1 2 3': "must be a value",
    "node,port\na,1": "line 1: has no column such as xmit_bytes",
    "port,xmit_bytes\n1,1": "line 1: has no column `node` or `lid`",
    "node,port,xmit_bytes\na,1": "line 2: has 2 columns instead of 3",
    "node,port,xmit_bytes\na,1,1\na,1,1": "line 3: port 1 of a appears twice; it is also in line 2",
    "node,port,xmit_bytes\n\x1b[31m,1,1": r"port 1 of \x1b[31m",
    "lid,port,xmit_bytes\n1,1,0": "no port has sent data between the dumps",
    "hello": "has no counters of ports; use the output of `perfquery -x`",
    "": "has no counters of ports",
    "x" * 70_000: "line 1: has more than 65,536 characters",
    "\x00": "has no counters of ports",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: repr(text[:40]))
def test_invalid_dumps_say_where(text, tmp_path):
    path = tmp_path / "dump"
    path.write_text(text)
    with pytest.raises(silvan.FabricError) as caught:
        silvan.fabric.infer(TREE, after=path, run=False)
    assert WRONG[text] in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_files_that_are_no_dumps(tmp_path, monkeypatch):
    path = tmp_path / "dump"
    path.write_bytes(b"# Port extended counters: Lid 1 port 1\n\xff")
    for name, message in (
        (path, "line 2: is not text in UTF-8"),
        (tmp_path, "is a folder"),
        (tmp_path / "no", "No such"),
    ):
        with pytest.raises(silvan.FabricError, match=message):
            silvan.fabric.infer(TREE, after=name, run=False)
    monkeypatch.setattr(readers, "MAX_BYTES", 1 << 20)
    path.write_text("x\n" * (1 << 20))
    with pytest.raises(silvan.FabricError, match="has more than 1 MiB, the limit of a dump"):
        silvan.fabric.infer(TREE, after=path, run=False)


def test_a_fabric_with_too_many_pairs_asks_for_hosts(tree, tmp_path, monkeypatch):
    monkeypatch.setattr(traffic, "MOST_PAIRS", 100)
    pairs = {(one, other): 4000 for one in tree.hosts[:16] for other in tree.hosts[16:32]}
    with pytest.raises(silvan.FabricError, match=r"256 pairs of hosts may have exchanged traffic.*--hosts"):
        infer(TREE, tree, pairs, tmp_path)
    told = infer(TREE, tree, pairs, tmp_path, hosts=["node-[0000-0003]", "node-[0016-0019]"])
    assert told["pairs_possible"] == 16
    assert told["mismatch"] > 0.1


def test_options_are_checked(tmp_path, tree):
    dump(tree, loads(tree, {("node-0017", "node-0000"): 4000}), file=tmp_path / "dump")
    for options, message in (
        ({"seconds": 0.0}, "the time between the dumps must be positive"),
        ({"seconds": float("nan")}, "must be positive"),
        ({"top": 0}, "top = 0"),
        ({"tolerance": 2.0}, "tolerance = 2"),
        ({"hosts": ["H99"]}, "no host `H99`"),
    ):
        with pytest.raises(silvan.FabricError, match=message):
            silvan.fabric.infer(TREE, after=tmp_path / "dump", run=False, **options)


def test_the_command(tree, tmp_path):
    full = int(tree.rates[0] * 1e9 * 0.01 / 8)
    pairs = {("node-0017", "node-0000"): full * 45 // 100, ("node-0033", "node-0000"): full * 48 // 100}
    dump(tree, loads(tree, pairs), file=tmp_path / "after")
    arguments = (
        "fabric",
        "infer",
        TREE,
        "--after",
        tmp_path / "after",
        "--seconds",
        "0.01",
        "-o",
        tmp_path / "out",
    )
    done = command(*arguments)
    assert done.returncode == 0, done.stderr
    assert "Determined: 2 pairs" in done.stdout
    assert "(busy), 93% of its rate" in done.stdout
    assert "PortXmitWait" in done.stdout
    assert "the rates of 9 of 9 links are within 5 %" in done.stdout
    assert silvan.Scenario.load(tmp_path / "out" / "counters.toml").check()["hosts"] == 64
    told = json.loads(command(*arguments, "--json", "--no-run").stdout)
    assert told["forward"] is None
    assert told["scenario"] == str(tmp_path / "out" / "counters.toml")
    gone = command("fabric", "infer", TREE, "--after", tmp_path / "none")
    assert gone.returncode == 1
    assert "Traceback" not in gone.stderr


def test_blocked_ports_lead_to_their_cause(tree, tmp_path):
    """Ports that were blocked all the time have sent nothing, so that no traffic shows the way."""
    way = route(tree, "node-0017", "node-0000")
    pairs = {("node-0016", "node-0020"): 4_000_000}
    told = infer(TREE, tree, pairs, tmp_path, waiting(tree, *way, share=1.0), seconds=0.01)
    assert [(root["link"], root["kind"]) for root in told["roots"]] == [(way[-1], "slow receiver")]
    assert {one["link"] for one in told["roots"][0]["waiting"]} == set(way[:-1])


def test_counters_that_contradict_the_routes_are_named(tree, tmp_path):
    octets = loads(tree, {("node-0017", "node-0000"): 4_000_000, ("node-0033", "node-0000"): 4_000_000})
    wrong = tree.links.index(route(tree, "node-0017", "node-0000")[-1])
    octets[wrong] //= 2
    dump(tree, octets, file=tmp_path / "after")
    told = silvan.fabric.infer(TREE, after=tmp_path / "after", run=False)
    [note] = [note for note in told["notes"] if note.startswith("no traffic on these routes")]
    assert "of the busiest link" in note


def test_a_long_line_of_dots_is_read_at_once(tmp_path):
    (tmp_path / "dump").write_text(HEAD + f"PortXmitData:{'.' * 60_000} x y\n")
    with pytest.raises(silvan.FabricError, match="line 2: PortXmitData is `x y`"):
        silvan.fabric.infer(TREE, after=tmp_path / "dump", run=False)
    (tmp_path / "dump").write_text("\n" * (readers.MAX_LINES + 1))
    with pytest.raises(silvan.FabricError, match="has more than 4,194,304 lines"):
        silvan.fabric.infer(TREE, after=tmp_path / "dump", run=False)


def test_traffic_that_cannot_be_run_is_a_note(tree, tmp_path):
    told = infer(TREE, tree, {("node-0017", "node-0000"): 4_000_000}, tmp_path, seconds=3600.0, run=True)
    assert told["forward"] is None
    assert any("no pair of hosts sends 10 packets in 20 ms" in note for note in told["notes"])
    assert len(told["pairs"]) == 1
