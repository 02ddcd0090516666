"""Messages that another rank of the sender's host passes on to its own rail (`ports.cross = "inner"`)."""

from __future__ import annotations

from pathlib import Path

import pytest

import silvan
from conftest import on_rails, sent_bytes

#: Bytes per second of a port of 100 Gbit/s, and of an inner link of 3600 Gbit/s.
PORT, INNER = 12.5e9, 450e9
LINKS = 'inner_rate = "3600 Gbit/s"'
RELAYS = f'{LINKS}\ncross = "inner"'


def span_s(result: silvan.Result) -> float:
    """Return the time from the start of the only job to its end."""
    (job,) = result.summary["jobs"]
    assert job["finished_ns"] is not None
    return float(job["span_ns"]) * 1e-9


def spine_bytes(result: silvan.Result) -> int:
    """Return the bytes that spines have sent."""
    links = result.numpy("links")
    return int(links["sent_bytes"][[str(link).startswith("L2.") for link in links["link"]]].sum())


def run_trace(folder: Path, ports: str, *lines: str) -> silvan.Result:
    """Run a trace of 16 ranks. Each line has the operations of a rank, in the order of the ranks."""
    ranks = [f"rank {rank} {{\n{line}\n}}" for rank, line in enumerate([*lines, *[""] * (16 - len(lines))])]
    (folder / "trace.goal").write_text("\n".join(["num_ranks 16", *ranks]))
    file = folder / "relays.toml"
    file.write_text(on_rails("{ kind = 'trace', file = 'trace.goal' }", ports=ports))
    return silvan.run(file)


#: Rank 0, the first of H1, sends 4 MiB to rank 5, the second of H2.
SIZE = 4 << 20
CROSSING = (f"l1: send {SIZE}b to 5 tag 3", "", "", "", "", f"l1: recv {SIZE}b from 0 tag 3")


@pytest.mark.parametrize("part", [SIZE, SIZE >> 3, 65_536])
def test_a_message_takes_the_time_of_a_part_on_the_inner_link_and_its_own_on_the_rail(tmp_path, part):
    result = run_trace(tmp_path, f'{RELAYS}\nrelay_part = "{part} B"', *CROSSING)
    assert span_s(result) == pytest.approx(part / INNER + SIZE / PORT, rel=1e-3)
    assert spine_bytes(result) == 0
    assert {port for port, sent in sent_bytes(result).items() if sent} == {"H1.2"}
    direct = run_trace(tmp_path, LINKS, *CROSSING)
    assert spine_bytes(direct) == SIZE


def test_an_exchange_of_all_ranks_uses_all_rails_equally_and_no_spine():
    ranks, hosts, size = 16, 4, 1 << 20
    program = f"{{ kind = 'collective', operation = 'all-to-all', ranks = {ranks}, bytes = '{size} B' }}"
    more = "algorithms = { all_to_all = 'linear' }"
    result = silvan.run(silvan.Scenario.from_toml(on_rails(program, more, RELAYS)))
    assert spine_bytes(result) == 0
    # Each port carries the messages of all ranks of its host to the ranks of its rail on three other hosts.
    assert set(sent_bytes(result).values()) == {(hosts - 1) * hosts * size}
    # The rails are busy from the first message of their own rank on, while other ranks deliver to the relays.
    least = (hosts - 1) * hosts * size / PORT
    assert least <= span_s(result) <= 1.02 * least + 4 * size / INNER


@pytest.mark.parametrize(
    ("ports", "message"),
    [
        ("cross = 'inner'", 'ports.cross = "inner": "inner" needs links between the ranks of a host'),
        (f"{RELAYS}\nuse = 'stripe'", 'ports.cross = "inner": "inner" needs ports.use = "rank"'),
        (f"{RELAYS}\narrival = 'same'", 'ports.cross = "inner": "inner" has no effect with ports.arrival'),
        (f"{LINKS}\nrelay_part = '1 KiB'", 'ports.relay_part = "1 KiB": has no effect without ports.cross'),
        (f"{RELAYS}\nrelay_part = '0 B'", 'ports.relay_part = "0 B": must be at least 1 B'),
    ],
)
def test_settings_without_effect_are_errors(ports, message):
    program = "{ kind = 'collective', operation = 'barrier', ranks = 16 }"
    with pytest.raises(silvan.SilvanError) as error:
        silvan.Scenario.from_toml(on_rails(program, ports=ports))
    assert message in str(error.value)


def test_receives_from_any_rank_are_errors(tmp_path):
    lines = [*CROSSING[:5], f"l1: recv {SIZE}b from 0 tag -1"]
    with pytest.raises(silvan.SilvanError, match="so its source and its tag must be stated"):
        run_trace(tmp_path, RELAYS, *lines)
