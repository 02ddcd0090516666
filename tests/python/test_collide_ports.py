"""Tests the links that a job shares on hosts with several ports against closed forms and runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import silvan
from silvan import cli
from silvan.types import Collisions


def on(folder: Path, wiring: str = "rails", ports: str = "", spines: int = 4) -> Path:
    """Write a scenario of 8 hosts with 4 ports each, on rails by default."""
    file = folder / "hosts.toml"
    file.write_text(f"""
        duration = "1 ms"
        [topology]
        kind = "two-level-fat-tree"
        leaves = {2 if wiring == "planes" else 4}
        spines = {spines}
        hosts_per_leaf = {4 if wiring == "planes" else 8}
        link_rate = "100 Gbit/s"
        [ports]
        count = 4
        wiring = "{wiring}"
        {ports}
        [[flow]]
        from = "H1.1"
        to = "H2.1"
    """)
    return file


def collide(file: Path, pattern: str = "all-to-all", **options: object) -> Collisions:
    """Count the links that a pattern of 32 ranks shares."""
    return silvan.fabric.collide(file, pattern=pattern, ranks_per_host=4, tries=0, **options)  # type: ignore[arg-type]


def test_messages_that_stay_on_their_rail_use_no_spine(tmp_path):
    for ports in ('arrival = "same"', 'cross = "inner"\ninner_rate = "3600 Gbit/s"'):
        told = collide(on(tmp_path, ports=ports))
        assert told["job"]["hosts"] == 8
        # Each port sends to those of the seven other hosts on its rail.
        assert told["job"]["flows"] == 8 * 4 * 7
        assert told["now"]["worst_demand"] == 0.0
        rails = [(row["port"], row["flows"], row["worst_demand"]) for row in told["now"]["rails"]]
        assert rails == [(port, 56, 0.0) for port in (1, 2, 3, 4)]


def test_messages_between_rails_share_the_spines(tmp_path):
    told = collide(on(tmp_path))
    # Each port sends to all 28 ports of other hosts, of which 21 are on other rails.
    assert told["job"]["flows"] == 32 * 28
    # A leaf sends 3/4 of the traffic of 8 ports over links to spines, 8 x 3/4 / 4 on each if balanced.
    now = told["now"]
    mean = sum(int(count) * links for count, links in now["flows_per_link"].items()) / 32
    assert mean == 8 * 21 / 4
    assert now["worst_demand"] >= 8 * 3 / 4 / 4
    assert [row["flows"] for row in now["rails"]] == [8 * 28] * 4
    half = collide(on(tmp_path, spines=2))["now"]
    assert half["worst_demand"] >= 2 * 8 * 3 / 4 / 4


def test_stripes_and_hashes_use_ports_as_jobs_do(tmp_path):
    file = on(tmp_path, "planes")
    striped = collide(file, "shift", distance=4)
    # Each of eight pairs of hosts uses a pair of ports in each of four planes.
    assert striped["job"]["flows"] == 8 * 4
    assert [row["flows"] for row in striped["now"]["rails"]] == [8] * 4
    hashed = collide(on(tmp_path, "planes", 'use = "hash"'), "shift", distance=4)
    assert 8 < hashed["job"]["flows"] <= 32
    assert {row["port"] for row in hashed["now"]["rails"]} <= {1, 2, 3, 4}


def test_demand_is_what_a_run_shows(tmp_path):
    # Rank 0 of each of four hosts sends to rank 1 of the next one, over spines. All use the same leaves.
    file = on(tmp_path, spines=1)
    goal = tmp_path / "cross.goal"
    sends = [(4 * host, (4 * ((host + 1) % 8) + 1)) for host in range(8)]
    lines = ["num_ranks 32"]
    for rank in range(32):
        own = [f"send 10000000b to {to}" for sender, to in sends if sender == rank]
        own += [f"recv 10000000b from {sender}" for sender, to in sends if to == rank]
        lines += [f"rank {rank} {{", *own, "}"]
    goal.write_text("\n".join(lines) + "\n")
    told = silvan.fabric.collide(file, trace=goal, ranks_per_host=4, tries=0)
    # Eight flows share the link from the first leaf to the spine.
    assert told["now"]["worst_demand"] == 8.0
    assert [(row["port"], row["flows"]) for row in told["now"]["rails"]] == [(1, 8)]
    job = f'[[job]]\nranks_per_host = 4\nprogram = {{ kind = "trace", file = "{goal}" }}\n'
    text = file.read_text().replace('duration = "1 ms"', 'duration = "1 s"')
    file.write_text(text[: text.index("[[flow]]")] + job)
    (found,) = silvan.run(file).summary["jobs"]
    assert float(found["span_ns"]) * 1e-9 == pytest.approx(8 * 10e6 / 12.5e9, rel=0.05)


def test_placements_name_hosts(tmp_path):
    # Two hosts at each leaf: the ranks of the first two do not need the spine.
    file = on(tmp_path, "block", spines=1)
    options = {"pattern": "all-to-all", "ranks_per_host": 4, "ranks": 8, "hosts": ["H1", "H3", "H2"]}
    told = silvan.fabric.collide(file, **options)
    assert (told["job"]["hosts"], told["now"]["worst_demand"]) == (2, 4.0)
    better = told["suggestion"]
    assert better is not None
    assert (sorted(better["hosts"]), better["worst_demand"]) == (["H1", "H2"], 0.0)
    assert [row["worst_demand"] for row in told["now"]["rails"]] == [4.0] * 4
    with pytest.raises(
        silvan.FabricError, match=r"no host `H1\.1` in the fabric; its hosts have names such as `H1`"
    ):
        collide(on(tmp_path), hosts=["H1.1"])


def test_the_command_lists_ports(tmp_path):
    shown = CliRunner().invoke(
        cli.application(),
        [
            "fabric",
            "collide",
            str(on(tmp_path)),
            "--pattern",
            "all-to-all",
            "--ranks-per-host",
            "4",
            "--tries",
            "0",
        ],
    )
    assert shown.exit_code == 0, shown.output
    assert "32 ranks on 8 hosts (linear), 896 flows between ports" in shown.output
    assert "By port of the sender" in shown.output
