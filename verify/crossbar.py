"""Input-queued crossbars: small separate models, compared with the simulator.

A crossbar moves one packet at a time from each input and to each output. Packets can start at any time: there
are no slots. The unit of time is the time in which a link transmits one byte.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Iterator
from statistics import mean
from typing import Any

from verify.check import Check, alike, run
from verify.maxmin import max_min

#: Smallest and largest size of a packet, in bytes. Sizes are uniformly distributed.
SMALLEST, LARGEST = 64, 4096
MEAN = (SMALLEST + LARGEST) / 2
#: The rate of a link, in bytes per nanosecond.
RATE = 2
#: An output waits for a busy input only after it has served other inputs out of turn for this multiple of the
#: time for which the input stays busy, per other input (`switch/rounds.rs`).
PATIENCE = 16


def many_ports() -> float:
    """Return the saturation of FIFO input queues in the limit of many ports, as a share of the link rate.

    Each output is then an M/G/1 queue with one packet in it on average, since each input has one packet at
    its head: load + load^2 (1 + c^2) / (2 (1 - load)) = 1, with c^2 the squared coefficient of variation of
    the sizes. The result is 2 - sqrt 2 for equal sizes, and 3 - sqrt 6 for sizes uniform between 0 and a
    maximum.
    """
    variance = ((LARGEST - SMALLEST + 1) ** 2 - 1) / 12
    return 1 / (1 + math.sqrt((1 + variance / MEAN**2) / 2))


def next_in_turn(asking: int, last: int) -> int:
    """Return the number of the first set bit in cyclic order, starting after bit `last`."""
    later = asking >> (last + 1) << (last + 1)
    chosen = later or asking
    return (chosen & -chosen).bit_length() - 1


def fifo_saturation(ports: int, duration: int, seed: int) -> float:
    """Return the throughput per port of a crossbar with one FIFO queue per input.

    The unit is the link rate. The queues always have packets. Each output serves the inputs that wait for it
    in cyclic order, and is idle only if no input waits.
    """
    rng = random.Random(f"fifo {ports} {seed}")
    waiting, last, is_busy = [0] * ports, [0] * ports, [False] * ports
    sizes, sent = [0] * ports, 0
    ends: list[tuple[int, int, int]] = []
    now, free_inputs = 0, list(range(ports))
    touched: set[int] = set()
    while now < duration:
        for source in free_inputs:
            sizes[source], output = rng.randint(SMALLEST, LARGEST), rng.randrange(ports)
            waiting[output] |= 1 << source
            touched.add(output)
        for output in sorted(touched):
            if waiting[output] and not is_busy[output]:
                source = last[output] = next_in_turn(waiting[output], last[output])
                waiting[output] ^= 1 << source
                is_busy[output] = True
                heapq.heappush(ends, (now + sizes[source], output, source))
        now, free_inputs, touched = ends[0][0], [], set()
        while ends and ends[0][0] == now:
            _, output, source = heapq.heappop(ends)
            is_busy[output] = False
            free_inputs.append(source)
            touched.add(output)
            sent += sizes[source]
    return sent / now / ports


class Voqs:
    """A work-conserving crossbar with a queue per pair of input and output, and hosts that feed it.

    A free output takes a packet from the next free input in cyclic order that has a packet for this output.
    A host sends packets to uniformly distributed destinations, one after the other, when the buffer of the
    input has room.
    """

    def __init__(self, ports: int, load: float | None, buffer: int, seed: int) -> None:
        self.rng = random.Random(f"voqs {ports} {load} {seed}")
        self.ports, self.load, self.now, self.turn = ports, load, 0.0, 0
        every = range(ports)
        self.pending = [deque[tuple[float, int, int]]() for _ in every]
        self.room = [buffer] * ports
        self.link_is_free = [True] * ports
        #: Queues by output and input. For each output, `wanting` has a bit for each input with packets for
        #: it. `free_inputs` has a bit for each free input.
        self.queues = [[deque[tuple[float, int]]() for _ in every] for _ in every]
        self.wanting, self.last, self.free_inputs = [0] * ports, [0] * ports, (1 << ports) - 1
        self.free_outputs = [True] * ports
        #: Pending events: time, kind, input, output, time of creation, and size.
        self.events: list[tuple[float, str, int, int, float, int]] = []
        self.sent, self.waited, self.count = 0, 0.0, 0
        for source in every:
            self.draw(source) if load is None else self.draw_later(source)

    def run(self, warmup: float, duration: float) -> tuple[float, float]:
        """Simulate; return throughput per port as a share of the link rate, and mean time in byte times.

        The time is that from creation to departure. Both are measured after the warm-up.
        """
        is_warm = False
        while self.now < duration:
            for source in range(self.ports):
                self.feed(source)
            self.match()
            self.now = self.events[0][0]
            if self.now >= warmup and not is_warm:
                self.sent, self.waited, self.count, is_warm = 0, 0.0, 0, True
            while self.events and self.events[0][0] == self.now:
                self.happen(*heapq.heappop(self.events)[1:])
        return self.sent / (duration - warmup) / self.ports, self.waited / max(self.count, 1)

    def draw(self, source: int) -> None:
        """Generate the next packet of a host."""
        drawn = (self.now, self.rng.randint(SMALLEST, LARGEST), self.rng.randrange(self.ports))
        self.pending[source].append(drawn)

    def draw_later(self, source: int) -> None:
        """Schedule the next packet of a host."""
        after = self.rng.expovariate((self.load or 0.0) / MEAN)
        heapq.heappush(self.events, (self.now + after, "drawn", source, 0, 0.0, 0))

    def happen(self, kind: str, source: int, output: int, created: float, size: int) -> None:
        """Generate a packet, or move it out of its host or out of the switch."""
        if kind == "drawn":
            self.draw(source)
            self.draw_later(source)
        elif kind == "left":
            self.link_is_free[source] = True
        else:
            self.free_inputs |= 1 << source
            self.free_outputs[output] = True
            self.room[source] += size
            self.sent += size
            self.waited += self.now - created
            self.count += 1

    def feed(self, source: int) -> None:
        """Send from a host, if possible: the switch can forward the packet while it arrives."""
        if not self.link_is_free[source] or not self.pending[source]:
            return
        created, size, output = self.pending[source][0]
        if size > self.room[source]:
            return
        self.pending[source].popleft()
        if self.load is None:
            self.draw(source)
        self.room[source] -= size
        self.link_is_free[source] = False
        self.queues[output][source].append((created, size))
        self.wanting[output] |= 1 << source
        heapq.heappush(self.events, (self.now + size, "left", source, 0, 0.0, 0))

    def match(self) -> None:
        """Start the next packet to each free output. Each call begins with another output, cyclically."""
        self.turn = (self.turn + 1) % self.ports
        for output in (*range(self.turn, self.ports), *range(self.turn)):
            asking = self.wanting[output] & self.free_inputs
            if not asking or not self.free_outputs[output]:
                continue
            source = self.last[output] = next_in_turn(asking, self.last[output])
            created, size = self.queues[output][source].popleft()
            if not self.queues[output][source]:
                self.wanting[output] ^= 1 << source
            self.free_inputs ^= 1 << source
            self.free_outputs[output] = False
            heapq.heappush(self.events, (self.now + size, "through", source, output, created, size))


def _scenario(ports: int, duration_us: int, **switch: str) -> dict[str, Any]:
    """Describe a star in which only the crossbar limits throughput. The warm-up is 20 % of the run."""
    return {
        "duration": f"{duration_us} us",
        "warmup": f"{duration_us // 5} us",
        "topology": {"kind": "star", "hosts": ports, "link_rate": "16 Gbit/s", "link_delay": "1 ns"},
        "switch": {"architecture": "iq", "latency": "0 ns", **switch},
        "packet": {"mtu": f"{LARGEST} B", "credit_block": "1 B"},
        "host": {"buffer": "1 MiB"},
        "measure": {"interval": "10 ms", "links": False, "hosts": False},
    }


def _uniform(scenario: dict[str, Any], load: float | None, seed: int) -> tuple[float, float]:
    """Run uniform traffic of random packet sizes; return throughput per port and mean latency in ns."""
    traffic: dict[str, Any] = {
        "pattern": {"kind": "uniform", "include_self": True},
        "message": f"{SMALLEST} B",
        "message_max": f"{LARGEST} B",
    }
    if load is not None:
        traffic |= {"rate": f"{round(8000 * RATE * load)} Mbit/s", "arrivals": "poisson"}
    summary = run({"seed": seed, **scenario, "traffic": [traffic]}).summary
    latency = next(row["mean_ns"] for row in summary["latency"] if row["since"] == "generation")
    return summary["throughput_gbit_s"] / (8 * RATE * scenario["topology"]["hosts"]), latency


def fifo_inputs(*, quick: bool) -> Iterator[Check]:
    """Check the saturation throughput with one FIFO queue per input and packets of random sizes."""
    lengths = {2: 10_000, 16: 3_000} if quick else {2: 60_000, 4: 40_000, 16: 20_000, 64: 8_000}
    samples: list[float] = []
    for ports, duration_us in lengths.items():
        scenario = _scenario(ports, duration_us, queues="single", buffer="128 KiB")
        seeds = range(1, 7)
        samples = [_uniform(scenario, None, seed)[0] for seed in seeds]
        model = [fifo_saturation(ports, 1000 * RATE * duration_us, seed) for seed in seeds]
        yield alike(f"FIFO inputs, {SMALLEST} to {LARGEST} B, {ports} ports", model, samples, 0.01)
    if not quick:
        # With 64 ports, saturation is close to the limit of many ports.
        yield Check("FIFO inputs, the limit of many ports, at 64", many_ports(), mean(samples), 0.01)


def virtual_output_queues(*, quick: bool) -> Iterator[Check]:
    """Compare a queue per output and iSLIP with a work-conserving crossbar.

    An output of the simulator sometimes waits for a busy input, so that each input gets its turn. At a load
    below 1, this has the same effect as losing 1 or 2 % of the output's time. The tolerance of the latency is
    therefore at least 2 %, divided by 1 minus the load.
    """
    lost, duration_us = 0.02, 2_500 if quick else 12_000
    scenario = _scenario(8, duration_us, queues="per-output", buffer="1 MiB")
    # At load 0.9, the mean of a run varies by 10 %: twelve runs would not distinguish a loss of 2 % from one
    # of 3 %.
    length, seeds = 1000.0 * RATE * duration_us, range(1, 13 if quick else 41)
    samples = [_uniform(scenario, None, seed)[0] for seed in seeds[:6]]
    model = [Voqs(8, None, 2**20, seed).run(length / 5, length)[0] for seed in seeds[:6]]
    yield alike("VOQ and iSLIP, 8 ports, saturation", model, samples, 0.01)
    for load in (0.8,) if quick else (0.5, 0.8, 0.9):
        samples = [_uniform(scenario, load, seed)[1] for seed in seeds]
        # Two links add a nanosecond each.
        model = [2 + Voqs(8, load, 2**20, seed).run(length / 5, length)[1] / RATE for seed in seeds]
        name = f"VOQ and iSLIP, 8 ports, load {load}, latency (ns)"
        yield alike(name, model, samples, lost / (1 - load))


def _beside(sizes: tuple[int, int, int], others: int, rate: str | None) -> dict[str, Any]:
    """Describe a star in which H1 sends to H3 (output P) and H2 (output O), and `others` hosts send to H2.

    `sizes` are the bytes of a packet from H1 to H3, from H1 to H2, and from the other hosts. `rate` limits
    the flow from H1 to H2.
    """
    second: dict[str, Any] = {"name": "second", "from": "H1", "to": "H2", "message": f"{sizes[1]} B"}
    if rate is not None:
        second["rate"] = rate
    return {
        **_scenario(3 + others, 8_000, queues="per-output", buffer="64 KiB"),
        "flow": [
            second,
            {"name": "first", "from": "H1", "to": "H3", "message": f"{sizes[0]} B"},
            *(
                {"name": f"other{i}", "from": f"H{4 + i}", "to": "H2", "message": f"{sizes[2]} B"}
                for i in range(others)
            ),
        ],
    }


def busy_inputs(*, quick: bool) -> Iterator[Check]:
    """Check that an input that is busy with another output still gets its turn.

    With packets of one size, the shares are max-min fair. With several sizes, the input sends as many packets
    as the other input, or as its own host allows. No packet waits longer than `switch/rounds.rs` states: each
    other input is served in two rounds, and out of turn for 16 times the duration for which the input is
    busy. One more packet is completed, and the output then waits for the busy input.
    """
    for others in (1, 2):
        names = ["second", *(f"other{i}" for i in range(others))]
        paths: dict[str, tuple[str, ...]] = dict.fromkeys(names, ("to O",))
        paths |= {"first": ("from X", "to P"), "second": ("from X", "to O")}
        fair = max_min(paths, {"from X": 1.0, "to O": 1.0, "to P": 1.0})
        got = run(_beside((2048, 2048, 2048), others, None)).summary["flows"]
        for flow in got:
            # If `second` gets less than its host sends, its packets fill the buffer, and `first` waits.
            if flow["flow"] == "first" and others > 1:
                continue
            name = f"busy input, {others} on the other side, share of the {flow['flow']}"
            law = fair[flow["flow"]]
            yield Check(name, law, flow["received_gbit_s"] / (8 * RATE), 0.005 * law)
    for sizes in ((4096, 523, 1999), (1999, 523, 4096), (2003, 1009, 3001)):
        got = run(_beside(sizes, 1, None)).summary["flows"]
        share = sizes[1] / (sizes[1] + max(sizes[0], sizes[2]))
        simulated = next(flow["received_gbit_s"] for flow in got if flow["flow"] == "second") / (8 * RATE)
        yield Check(f"busy input, {sizes} B, share of the second", share, simulated, 0.01 * share)
    for others in (1, 2) if quick else (1, 2, 3, 5):
        for keeps_busy, size, theirs in ((4096, 523, 1999), (1999, 523, 4096), (2048, 2048, 2048)):
            bound = (2 * others + 1) * theirs + (PATIENCE * others + 1) * keeps_busy
            # The rate is so low that at most one packet waits: every packet measures the wait of one turn.
            rate = f"{8000 * RATE * size // (bound + size + 17)} Mbit/s"
            rows = run(_beside((keeps_busy, size, theirs), others, rate)).summary["latency"]
            rows = [row for row in rows if row["class"] == "second" and row["since"] == "injection"]
            waited = rows[0]["max_ns"] - 2 - size / RATE
            name = f"busy input, {size} while sending {keeps_busy} B, against {others} of {theirs} B"
            yield Check(f"{name}, wait (ns)", 0.0, waited, bound / RATE)


LAWS = (fifo_inputs, virtual_output_queues, busy_inputs)
