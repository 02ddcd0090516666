"""Hosts with several ports: closed forms of transfers over rails, planes and links within hosts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import silvan
from conftest import command, on_rails, run_text, sent_bytes

#: Bytes per second of a port of 100 Gbit/s.
PORT = 12.5e9
#: Bytes on a port per byte of data, if 64 bytes acknowledge each packet of 4096 bytes in the other direction.
ACKNOWLEDGED = 1 + 64 / 4096


def span_s(result: silvan.Result) -> float:
    """Return the time from the start of the only job to its end."""
    (job,) = result.summary["jobs"]
    assert job["finished_ns"] is not None
    assert job["message_slowdown_mean"] is None or job["slowdown"] >= 0.999
    return float(job["span_ns"]) * 1e-9


def exchange(hosts: int, planes: int, size: str = "16 MiB", down: dict[str, object] | None = None) -> str:
    """Return a scenario in which each host sends to each other one at the same time, over planes."""
    event = ""
    if down is not None:
        event = "[recovery]\nkind = 'selective-repeat'\ntimeout = '1 ms'\n"
        event += "[[event]]\nkind = 'down'\nstart = '0 s'\n"
    event += "".join(f"{key} = {value!r}\n" for key, value in (down or {}).items())
    return f"""
        duration = "100 ms"
        [topology]
        kind = "star"
        hosts = {hosts}
        link_rate = "100 Gbit/s"
        [packet]
        mtu = "4096 B"
        [ports]
        count = {planes}
        wiring = "planes"
        {event}
        [[job]]
        start = "1 us"
        algorithms = {{ all_to_all = "linear" }}
        program = {{ kind = "collective", operation = "all-to-all", ranks = {hosts}, bytes = "{size}" }}
    """


@pytest.mark.parametrize("use", ["stripe", "spray"])
@pytest.mark.parametrize("planes", [2, 3, 8])
def test_planes_carry_equal_shares_of_an_exchange(planes, use):
    size, hosts = 16 << 20, 4
    result = run_text(exchange(hosts, planes), **{"ports.use": use})
    # Each host sends to the others on all planes. A message ends with a short packet on one of them at most.
    assert span_s(result) == pytest.approx((hosts - 1) * size / (planes * PORT), rel=5e-3)
    shares = sent_bytes(result)
    assert len(shares) == hosts * planes
    assert sum(shares.values()) == hosts * (hosts - 1) * size
    assert max(shares.values()) - min(shares.values()) <= (hosts - 1) * 4096


def test_a_slow_port_sends_fewer_packets_with_spray_only():
    size, planes = 32 << 20, 4
    event = "[[event]]\nkind = 'rate'\nlinks = 'H1.3'\nrate = '25 Gbit/s'\nstart = '0 s'\n"
    text = exchange(2, planes, size=f"{size} B").replace("[[job]]", event + "[[job]]")
    one_way = {"job.0.program.operation": "broadcast"}
    stripe, spray = run_text(text, **one_way), run_text(text, **{**one_way, "ports.use": "spray"})
    assert span_s(stripe) == pytest.approx(size / planes / (PORT / 4), rel=5e-3)
    assert span_s(spray) == pytest.approx(size / ((planes - 1 + 1 / 4) * PORT), rel=5e-3)
    shares = sent_bytes(spray)
    assert sum(shares.values()) == size
    assert shares["H1.3"] == pytest.approx(shares["H1.2"] / 4, rel=1e-2)


@pytest.mark.parametrize("failed", [1, 2, 3, 4])
def test_the_remaining_planes_replace_failed_ones(failed):
    healthy = span_s(run_text(exchange(4, 8)))
    switches = [f"P{plane}.S1" for plane in range(2, 2 + failed)]
    result = run_text(exchange(4, 8, down={"switches": switches}))
    assert span_s(result) / healthy == pytest.approx(ACKNOWLEDGED * 8 / (8 - failed), rel=5e-3)


def test_a_host_without_one_port_takes_longer_than_the_others():
    hosts, planes, size = 8, 8, 16 << 20
    result = run_text(exchange(hosts, planes, down={"links": ["H3.5"]}))
    expected = ACKNOWLEDGED * (hosts - 1) * size / ((planes - 1) * PORT)
    assert span_s(result) == pytest.approx(expected, rel=5e-3)
    shares = sent_bytes(result)
    assert shares["H3.5"] == 0
    # No host sends to the port: the others send to H3 on seven planes, and to the rest on eight.
    fifth = (hosts - 2) * size / planes
    assert shares["H1.5"] == pytest.approx(fifth, abs=(hosts - 1) * 4096)
    assert shares["H1.4"] == pytest.approx(fifth + size / (planes - 1), abs=(hosts - 1) * 4096)


def transfer(size: int, planes: int, event: str, more: str = "", **keys: str) -> str:
    """Return a scenario in which H1 sends a message to H2 over planes, while a port fails."""
    recovery = keys.get("recovery", "selective-repeat")
    return f"""
        duration = "{keys.get("duration", "100 ms")}"
        [topology]
        kind = "star"
        hosts = 2
        link_rate = "100 Gbit/s"
        [packet]
        mtu = "4096 B"
        [ports]
        count = {planes}
        wiring = "planes"
        failover = "{keys.get("failover", "0 s")}"
        [recovery]
        kind = "{recovery}"
        timeout = "200 us"
        [[event]]
        kind = "down"
        {event}
        [[job]]
        {more}
        program = {{ kind = "collective", operation = "broadcast", ranks = 2, bytes = "{size} B" }}
    """


@pytest.mark.parametrize("failover", ["0 s", "50 us", "300 us"])
@pytest.mark.parametrize("lost", ['switches = "P3.S1"', 'links = "H1.3"', 'links = "H2.3"'])
@pytest.mark.parametrize("use", ["stripe", "spray"])
def test_a_message_moves_to_the_remaining_planes(lost, failover, use):
    size, planes, start = 100_000_000, 8, 500e-6
    text = transfer(size, planes, f'{lost}\nstart = "500 us"', failover=failover)
    result = run_text(text, **{"ports.use": use})
    # Whenever the failure is detected, the other planes have the same bytes left to send.
    sent = planes * PORT * start
    assert span_s(result) == pytest.approx(start + (size - sent) / ((planes - 1) * PORT), rel=2e-3)
    (job,) = result.summary["jobs"]
    # H1 does not know that the port of H2 has failed. With spray, its port takes packets until it repeats
    # the first ones after 200 us.
    unknown = float(failover.split()[0]) * 1e-6 if "H2" in lost else 0
    expected = size / planes - PORT * start if use == "stripe" else PORT * min(unknown, 200e-6)
    assert job["moved_bytes"] == pytest.approx(expected, abs=100_000)
    assert sum(sent_bytes(result).values()) - size == pytest.approx(PORT * unknown, abs=100_000)


@pytest.mark.parametrize("recovery", ["selective-repeat", "go-back-n"])
@pytest.mark.parametrize("sends", ["interleaved", "sequential"])
def test_messages_move_while_ports_fail_and_return(sends, recovery):
    # Port 2 flaps, and port 3 fails while it has the data of port 2.
    event = """
        links = "H2.2"
        start = "100 us"
        lasts = "60 us"
        every = "150 us"
        [[event]]
        kind = "down"
        links = "H1.3"
        start = "120 us"
    """
    text = transfer(20_000_000, 4, event, f'sends = "{sends}"', recovery=recovery, failover="10 us")
    others: list[dict[str, object]] = [
        {},
        {"job.0.program.operation": "all-to-all"},
        {"job.0.rendezvous_above": "1 KB"},
        {"ports.use": "spray"},
    ]
    for changes in others:
        result = run_text(text, **changes)
        (job,) = result.summary["jobs"]
        assert job["finished_ns"] is not None
        assert job["moved_bytes"] > 0
        table = result.numpy("ranks")
        assert sum(table["sent_bytes"]) == sum(table["received_bytes"]) == job["bytes"]
        again = run_text(text, scheduler="event-ordered", **changes)
        assert (span_s(result), sent_bytes(result)) == (span_s(again), sent_bytes(again))


def test_a_message_without_another_port_waits_until_one_is_back():
    event = 'links = ["H2.1", "H2.2"]\nstart = "100 us"\nlasts = "1 ms"'
    result = run_text(transfer(5_000_000, 2, event))
    (job,) = result.summary["jobs"]
    assert (job["moved_bytes"], job["finished_ns"] > 1.1e6) == (0, True)


def test_an_explanation_says_that_it_does_not_know_failed_ports():
    result = run_text(transfer(1_000_000, 2, 'links = "H1.2"\nstart = "20 us"', failover="200 us"))
    (found,) = silvan.why(result, job="job.0")
    assert "moved from failed ports" in str(found).splitlines()[-1]
    (found,) = silvan.why(run_text(exchange(2, 2)), job="job.0")
    assert "failed ports" not in str(found)


def test_messages_move_to_a_port_that_returns():
    event = """
        links = "H1.1"
        start = "100 us"
        lasts = "200 us"
        [[event]]
        kind = "down"
        links = "H1.2"
        start = "100 us"
    """
    result = run_text(transfer(5_000_000, 2, event, failover="20 us"))
    (job,) = result.summary["jobs"]
    assert job["moved_bytes"] == pytest.approx(1_250_000, abs=50_000)
    assert span_s(result) == pytest.approx(300e-6 + 2.5e6 / PORT, rel=1e-2)


def test_any_connected_ports_replace_those_that_have_failed():
    program = '{ kind = "collective", operation = "broadcast", ranks = 2, bytes = "10 MB" }'
    event = """
        [recovery]
        kind = "selective-repeat"
        timeout = "100 us"
        [[event]]
        kind = "down"
        links = ["H1.[1-3]", "H2.4"]
        start = "400 us"
    """
    text = on_rails(program, "hosts = ['H1', 'H2']", 'failover = "20 us"').replace(
        "per_host = 4", "per_host = 1"
    )
    result = run_text(text.replace("[[job]]", event + "[[job]]"))
    assert span_s(result) == pytest.approx(10e6 / PORT + 20e-6, rel=2e-2)
    assert sent_bytes(result)["H1.4"] == result.summary["jobs"][0]["moved_bytes"] > 0


def test_a_slow_job_names_no_links_if_its_ports_are_unknown():
    text = (
        exchange(8, 2, size="200 KB")
        .replace("wiring", "use = 'rank'\nwiring")
        .replace("[[job]]", "[[job]]\nranks_per_host = 2")
    )
    text = text.replace("ranks = 8", "ranks = 16").replace(
        'kind = "star"', 'kind = "two-level-fat-tree"\nspines = 1\nhosts_per_leaf = 4'
    )
    result = run_text(text.replace("hosts = 8", "leaves = 2"))
    (job,) = result.summary["jobs"]
    assert (job["port_use"], job["slowdown"] > 1.05) == ("rank", True)
    assert not [line for line in result.account if "share links" in line]


def test_a_message_moves_from_a_rail_to_the_next():
    program = '{ kind = "collective", operation = "broadcast", ranks = 8, bytes = "10 MB" }'
    event = """
        [recovery]
        kind = "go-back-n"
        timeout = "100 us"
        [[event]]
        kind = "down"
        links = "H1.1"
        start = "400 us"
    """
    text = on_rails(program, "hosts = ['H1', 'H2']", 'failover = "20 us"').replace(
        "[[job]]", event + "[[job]]"
    )
    result = run_text(text)
    # The other ranks of both hosts get the data without the network.
    (job,) = result.summary["jobs"]
    assert job["moved_bytes"] == pytest.approx(10e6 - 400e-6 * PORT, abs=50_000)
    assert span_s(result) == pytest.approx(10e6 / PORT + 20e-6, rel=2e-2)
    assert sent_bytes(result)["H1.2"] == job["moved_bytes"]


def hierarchical(hosts: int, gpus: int, size: int) -> str:
    """Return an all-reduce in GOAL: within hosts, in a ring on each rail, and within hosts again."""
    share, piece = size // gpus, size // gpus // hosts
    lines = [f"num_ranks {hosts * gpus}"]
    for rank in range(hosts * gpus):
        host, gpu = divmod(rank, gpus)
        others = [host * gpus + other for other in range(gpus) if other != gpu]
        after, before = (host + 1) % hosts * gpus + gpu, (host - 1) % hosts * gpus + gpu
        lines.append(f"rank {rank} {{")
        previous: list[str] = []
        for phase in ("scatter", "gather"):
            tag = 1 if phase == "scatter" else 3
            for other in others:
                lines.append(f"s{phase}{other}: send {share}b to {other} tag {tag}")
                lines.append(f"r{phase}{other}: recv {share}b from {other} tag {tag}")
                lines.extend(f"s{phase}{other} requires {one}" for one in previous)
            previous = [f"r{phase}{other}" for other in others]
            for step in range(2 * (hosts - 1) if phase == "scatter" else 0):
                lines.append(f"s{step}: send {piece}b to {after} tag 2")
                lines.append(f"r{step}: recv {piece}b from {before} tag 2")
                lines.extend(f"s{step} requires {one}" for one in previous)
                previous = [f"r{step}"]
        lines.append("}")
    return "\n".join(lines) + "\n"


def test_hierarchical_all_reduce_takes_the_times_of_its_phases(tmp_path: Path):
    hosts, gpus, size, inner = 4, 4, 32 << 20, 450e9
    (tmp_path / "all-reduce.goal").write_text(hierarchical(hosts, gpus, size))
    file = tmp_path / "rails.toml"
    program = '{ kind = "trace", file = "all-reduce.goal" }'
    file.write_text(on_rails(program, ports='inner_rate = "3600 Gbit/s"'))
    result = silvan.run(file)
    within = 2 * (gpus - 1) / gpus * size / inner
    between = 2 * (hosts - 1) / hosts * (size / gpus) / PORT
    assert span_s(result) == pytest.approx(within + between, rel=5e-3)
    shares = sent_bytes(result)
    assert set(shares.values()) == {2 * (hosts - 1) * (size // gpus // hosts)}, "equal on all rails"
    spines = result.numpy("links")
    assert not any(str(link).startswith("L2.") for link in spines["link"][spines["sent_bytes"] > 0]), (
        "within rails"
    )


def test_a_ring_of_gpus_crosses_the_spines_once_per_host():
    size = 16 << 20
    program = f'{{ kind = "collective", operation = "all-reduce", ranks = 16, bytes = "{size} B" }}'
    more = 'algorithms = { all_reduce = "ring" }'
    own = run_text(on_rails(program, more, 'inner_rate = "3600 Gbit/s"'))
    assert span_s(own) == pytest.approx(2 * 15 * (size / 16) / PORT, rel=5e-3)
    # The last GPU of a host sends to the first one of the next host.
    shares = sent_bytes(own)
    assert {port for port, sent in shares.items() if sent} == {f"H{host}.4" for host in range(1, 5)}
    same = run_text(on_rails(program, more, 'inner_rate = "3600 Gbit/s"\narrival = "same"'))
    links = same.numpy("links")
    assert not any(str(link).startswith("L2.") for link in links["link"][links["sent_bytes"] > 0])


def test_links_within_a_host_have_a_rate_and_a_latency():
    gpus, size, inner, latency = 4, 4 << 20, 450e9, 2e-6
    program = f'{{ kind = "collective", operation = "all-reduce", ranks = {gpus}, bytes = "{size} B" }}'
    more = 'algorithms = { all_reduce = "ring" }\nhosts = ["H2"]'
    ports = 'inner_rate = "3600 Gbit/s"\ninner_latency = "2 us"'
    result = run_text(on_rails(program, more, ports))
    assert span_s(result) == pytest.approx(2 * (gpus - 1) * (size / gpus / inner + latency), rel=2e-4)
    assert result.summary["packets_injected"] == 0


def test_a_hash_uses_one_port_per_pair_of_ranks():
    text = exchange(6, 4).replace('wiring = "planes"', 'wiring = "planes"\nuse = "hash"')
    result = run_text(text)
    shares = sent_bytes(result)
    assert sum(shares.values()) == 30 * (16 << 20)
    assert all(sent % (16 << 20) == 0 for sent in shares.values()), "whole messages"


@pytest.mark.parametrize("changes", [{"scheduler": "event-ordered"}, {"threads": 4}, {"seed": 9}])
def test_results_do_not_depend_on_the_scheduler_or_threads(changes):
    text = exchange(4, 3, size="300 KB", down={"links": ["H2.1"], "switches": ["P2.S1"]})
    plain, other = run_text(text), run_text(text, **changes)
    assert span_s(plain) == span_s(other)
    assert sent_bytes(plain) == sent_bytes(other)


@pytest.mark.parametrize("ports", ["rails", "planes", "block"])
@pytest.mark.parametrize("use", ["rank", "hash", "stripe", "spray"])
def test_the_ports_of_a_host_are_in_one_of_several_partitions(ports, use):
    program = '{ kind = "collective", operation = "all-to-all", ranks = 8, bytes = "100 KB" }'
    text = on_rails(program, "rendezvous_above = '50 KB'", f'use = "{use}"')
    changes = {"leaves = 4": "leaves = 8", "1 ns": "500 ns", "per_host = 4": "per_host = 1", "rails": ports}
    for old, new in changes.items():
        text = text.replace(old, new)
    warnings = silvan.Scenario.from_toml(text, overrides={"threads": 64}).check()["warnings"]
    # Rails connect groups of four leaves, and blocks none. The job's eight hosts are at two leaves per plane.
    count = {"rails": 2, "planes": 6 * 4 + 2, "block": 8}[ports]
    assert any(f"uses {count} threads" in warning for warning in warnings), warnings
    one, other = run_text(text), run_text(text, threads=3)
    assert one.summary["jobs"] == other.summary["jobs"]
    for table in ("messages", "ranks", "hosts", "links"):
        columns, same = one.numpy(table), other.numpy(table)
        assert all((columns[name] == same[name]).all() for name in columns), table


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("count = 4", "count = 1", "ports.count = 1: must be 2 to 64"),
        (
            "leaves = 4",
            "leaves = 3",
            'ports.wiring = "rails": 3 leaf switches cannot be divided into groups of 4 rails',
        ),
        ('wiring = "rails"', 'wiring = "planes"\narrival = "own"\nuse = "rank"', "planes are not connected"),
        (
            'wiring = "rails"',
            'wiring = "rails"\nuse = "hash"\narrival = "own"',
            "has no effect unless ports.use",
        ),
        (
            'wiring = "rails"',
            'wiring = "rails"\ninner_latency = "1 us"',
            "has no effect without ports.inner_rate",
        ),
        ('wiring = "rails"', 'wiring = "rails"\nfailover = "1 us"', "has no effect without [recovery]"),
        ("ranks_per_host = 4", 'ranks_per_host = 4\nhosts = ["H2.1"]', "H2.1 is a port of a host"),
        (
            "ranks_per_host = 4",
            'ranks_per_host = 4\nhosts = ["H9"]',
            r"H9\": no such host; the 4 hosts are H1 to H4",
        ),
        ("ranks_per_host = 4", 'hosts = ["H1"]', "1 are given, but 4 ranks need 4"),
        (
            "[[job]]",
            '[[flow]]\nfrom = "H1"\nto = "H2.1"\n[[job]]',
            "H1 has 4 ports: name one of them, such as H1.1",
        ),
    ],
)
def test_impossible_settings_are_refused(old, new, message):
    text = on_rails('{ kind = "collective", operation = "barrier", ranks = 4 }')
    assert old in text
    with pytest.raises(silvan.SilvanError, match=message.replace("[", r"\[")):
        silvan.Scenario.from_toml(text.replace(old, new)).check()


def test_patterns_stay_in_their_plane():
    text = exchange(4, 2) + "[[traffic]]\npattern = { kind = 'uniform' }\n"
    with pytest.raises(silvan.SilvanError, match="would send from plane to plane"):
        silvan.Scenario.from_toml(text).check()
    between = exchange(4, 2) + "[[flow]]\nfrom = 'H1.1'\nto = 'H2.2'\n"
    with pytest.raises(silvan.SilvanError, match=r"from H1\.1 to H2\.2: switch P1\.S1 has no route"):
        silvan.Scenario.from_toml(between).check()


def test_a_message_on_few_of_many_ports_is_not_faster_than_on_the_crossbar():
    for size in ("4 KiB", "36 KiB", "200000 B"):
        (job,) = run_text(exchange(16, 8, size)).summary["jobs"]
        assert job["slowdown"] >= 0.99, size


def test_what_needs_connected_planes_is_refused(tmp_path: Path):
    text = exchange(4, 2).partition("[[job]]")[0]
    with pytest.raises(silvan.ScenarioError, match="a program may send between any two ports"):
        silvan.Scenario.from_toml(text + "[external]\n")
    (tmp_path / "list.csv").write_text("from,to,bytes,start_ns\nH1.1,H2.1,1000,0\nH1.1,H2.2,1000,0\n")
    listed = text + "[[traffic]]\npattern = { kind = 'listed', file = 'list.csv' }\n"
    with pytest.raises(silvan.ScenarioError, match=r"from H1\.1 to H2\.2, which are not connected"):
        silvan.Scenario.from_toml(listed, base_dir=tmp_path).check()


def test_a_delay_is_explained_by_the_part_that_arrives_last(tmp_path: Path):
    (tmp_path / "planes.toml").write_text(exchange(4, 4, size="4096 B"))
    done = command("run", "planes.toml", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for subject in (["--job", "job.0"], []):
        done = command("why", "out", *subject, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "before the recording" not in done.stdout


def test_the_parts_of_a_message_on_several_ports_do_not_delay_each_other():
    for use in ("stripe", "spray"):
        result = run_text(exchange(2, 4, "4 MiB"), **{"ports.use": use})
        (found,) = silvan.why(result)
        assert "The message of 4.194 MB of job.0" in str(found)
        assert found.explanation.delay < 0.02 * found.explanation.duration


def test_the_resolved_scenario_states_the_use_of_ports():
    scenario = silvan.Scenario.from_toml(exchange(4, 2))
    assert 'use = "stripe"' in scenario.to_toml()
    assert silvan.Scenario.from_toml(scenario.to_toml()).to_toml() == scenario.to_toml()


def test_the_cost_of_failed_ports_is_the_difference_to_the_job_alone():
    event = [{"kind": "down", "links": ["H1.1"], "start": "1 us", "name": "port"}]
    text = exchange(4, 4, down={"links": ["H2.1"]})
    result = silvan.run(silvan.Scenario.from_toml(text, overrides={"event": event}), alone=True)
    (said,) = [line for line in result.account if "alone on this network" in line]
    assert "33 % slower" in said
    assert "because of the event `port`: nothing else differs" in said


def test_results_by_host_are_the_sums_over_its_ports():
    result = run_text(exchange(4, 3), **{"measure": {"hosts": True, "interval": "100 us"}})
    machines = result.summary["machines"]
    assert [machine["machine"] for machine in machines] == ["H1", "H2", "H3", "H4"]
    by_port = {host["host"]: host for host in result.summary["hosts"]}
    for machine in machines:
        assert len(machine["ports"]) == 3
        for key in ("received_gbit_s", "sent_gbit_s"):
            assert machine[key] == pytest.approx(sum(by_port[port][key] for port in machine["ports"]))
    series, ports = result.machines, result.numpy("hosts")
    assert series.column_names == ["time_ns", "machine", "received_bytes", "sent_bytes"]
    received = np.asarray(series["received_bytes"]).reshape(-1, 4)
    assert len(received) == len(set(ports["time_ns"].tolist()))
    own = np.isin(ports["host"], machines[1]["ports"])
    assert received[:, 1].tolist() == ports["received_bytes"][own].reshape(-1, 3).sum(axis=1).tolist()
    assert received.sum() == ports["received_bytes"].sum() > 0
    with pytest.raises(KeyError, match="all hosts have one port"):
        _ = silvan.run("multistage").machines


#: Two hosts with two ports of 100 Gbit/s on planes, and a limit of 120 Gbit/s for both ports together.
SHARED = """
    duration = "400 us"
    warmup = "100 us"
    [topology]
    kind = "star"
    hosts = 4
    link_rate = "100 Gbit/s"
    [packet]
    mtu = "4096 B"
    [ports]
    count = 2
    wiring = "planes"
    injection_rate = "120 Gbit/s"
"""


def flow_rates(flows: str, **changes: object) -> list[float]:
    """Return the rates of flows, given as pairs of ports, in Gbit/s."""
    pairs = [pair.split("->") for pair in flows.split()]
    text = SHARED + "".join(f'[[flow]]\nfrom = "{one}"\nto = "{other}"\n' for one, other in pairs)
    return [flow["received_gbit_s"] for flow in run_text(text, **changes).summary["flows"]]


def test_ports_share_the_injection_rate_of_their_host_in_turn():
    assert flow_rates("H1.1->H2.1") == pytest.approx([100], rel=0.01), "one port is not limited"
    assert flow_rates("H1.1->H2.1 H1.2->H3.2") == pytest.approx([60, 60], rel=0.01)
    assert flow_rates("H1.1->H2.1 H1.1->H3.1 H1.2->H3.2") == pytest.approx([30, 30, 60], rel=0.01)
    # The other host has a limit of its own.
    rates = flow_rates("H1.1->H2.1 H1.2->H2.2 H3.1->H4.1")
    assert rates == pytest.approx([60, 60, 100], rel=0.01)
    # The rest of the limit is for the port that can use it.
    changes = {"flow.1.rate": "30 Gbit/s"}
    assert flow_rates("H1.1->H2.1 H1.2->H3.2", **changes) == pytest.approx([90, 30], rel=0.02)


def test_a_port_that_cannot_send_does_not_hold_up_the_others():
    down = {"kind": "down", "links": ["H1.1"], "start": "50 us"}
    rates = flow_rates("H1.1->H2.1 H1.2->H3.2", event=[down])
    assert rates == pytest.approx([0, 100], rel=0.01)
    # A receiver that drains slowly gives little credit.
    slow = {"kind": "drain", "hosts": ["H2.1"], "rate": "10 Gbit/s", "start": "0 s"}
    rates = flow_rates("H1.1->H2.1 H1.2->H3.2", event=[slow])
    assert rates == pytest.approx([10, 100], rel=0.02)


def test_a_job_on_ports_with_a_shared_limit_takes_as_long_as_the_limit_demands():
    size, hosts = 4 << 20, 4
    changes = {"ports.injection_rate": "150 Gbit/s", "job.0.algorithms.all_to_all": "linear"}
    result = run_text(exchange(hosts, 4, "4 MiB"), **changes)
    (job,) = result.summary["jobs"]
    assert job["span_ns"] == pytest.approx((hosts - 1) * size * 8 / 150, rel=0.02)
    # Waiting for a turn is part of sending.
    assert job["sending_share"] == pytest.approx(1, abs=0.02)
    assert job["blocked_share"] == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"host.queues": "single", "host.output_buffer": "64 KiB"}, "cannot be combined with host.queues"),
        ({"congestion.mechanism": "ccfit"}, "cannot be combined with special queues"),
        (
            {"host.injection_includes_control": True, "host.injection_rate": "50 Gbit/s"},
            "cannot be combined with host.injection_includes_control",
        ),
    ],
)
def test_settings_that_exclude_a_shared_limit_are_named(changes, message):
    with pytest.raises(silvan.ScenarioError, match=message):
        flow_rates("H1.1->H2.1", **changes)


def test_fluid_rates_refuse_a_limit_that_ports_share():
    text = SHARED + '[[flow]]\nfrom = "H1.1"\nto = "H2.1"\n'
    with pytest.raises(
        silvan.ScenarioError, match=r"ports.injection_rate.*one that ports share; leave it out"
    ):
        silvan.fluid(silvan.Scenario.from_toml(text))


def test_repetitions_that_use_other_ports_are_not_skipped():
    text = exchange(2, 2, "50 kB").replace('bytes = "50 kB"', 'bytes = "50 kB", iterations = 40')
    summary = run_text(text, engine={"skip": True}).summary["skipping"]
    assert "selects the port of its first packet (ports.use)" in summary["obstacle"]
    assert not summary["intervals"]
