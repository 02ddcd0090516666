"""Converts OTF2 traces to recordings of MPI calls, with the optional package `otf2`.

Sizes of collective operations follow Score-P. For example, an all-reduce of n ranks counts n times the size
of the vector as sent. In-place operations are recognized by their size where possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from silvan._core import TraceError

#: Maps OTF2's names of collective operations to the names in a recording.
OPERATIONS = {
    "BARRIER": "Barrier",
    "BCAST": "Bcast",
    "GATHER": "Gather",
    "SCATTER": "Scatter",
    "ALLGATHER": "Allgather",
    "ALLTOALL": "Alltoall",
    "REDUCE": "Reduce",
    "ALLREDUCE": "Allreduce",
    "REDUCE_SCATTER_BLOCK": "Reduce_scatter_block",
    "SCAN": "Scan",
}
#: Operations that send no messages.
SILENT = ("CREATE_HANDLE", "DESTROY_HANDLE", "ALLOCATE", "DEALLOCATE", "CREATE_HANDLE_AND_ALLOCATE")


def write(anchor: Path, out: TextIO) -> None:
    """Read a trace and write it as a recording of the calls of each rank.

    Raises `TraceError` if the package `otf2` is missing, the trace is invalid, or an event is not supported.
    """
    try:
        import otf2
    except ImportError:
        raise TraceError(f"{anchor}: to read OTF2, pip install 'silvan[otf2]'") from None
    if not anchor.is_file():
        raise TraceError(f"{anchor}: cannot be read: no such file")
    try:
        with otf2.reader.open(str(anchor)) as trace:
            start = trace.definitions.clock_properties.global_offset
            communicators = Communicators(trace.definitions.comms)
            calls = Calls(communicators, start, trace.timer_resolution)
            for location, event in trace.events:
                calls.add(location, event)
    except TraceError as error:
        raise TraceError(f"{anchor}: {error}") from None
    except Exception as error:
        raise TraceError(f"{anchor}: cannot be read as OTF2: {error}") from error
    out.writelines(f"{line}\n" for line in calls.lines())


class Communicators:
    """The communicators of a trace: their numbers and their ranks."""

    def __init__(self, comms: Sequence[Any]) -> None:
        world = next((comm for comm in comms if comm.name == "MPI_COMM_WORLD"), None)
        if world is None or not world.group.members:
            raise TraceError("MPI_COMM_WORLD or its ranks are missing")
        #: Maps locations to ranks.
        self.ranks = {location: rank for rank, location in enumerate(world.group.members)}
        others = [comm for comm in comms if comm is not world and self._is_of_ranks(comm)]
        self._numbers = {id(comm): number for number, comm in enumerate([world, *others])}
        self.members = [
            [self.ranks[location] for location in comm.group.members] for comm in [world, *others]
        ]

    def _is_of_ranks(self, comm: Any) -> bool:
        members = comm.group.members
        return bool(members) and all(location in self.ranks for location in members)

    def number(self, comm: Any, rank: int) -> int:
        """Return the number of a communicator.

        Raises `TraceError`, which names `rank`, if the ranks of the communicator are unknown.
        """
        if id(comm) not in self._numbers:
            raise TraceError(f"rank {rank} uses the communicator `{comm.name}`, whose ranks are not recorded")
        return self._numbers[id(comm)]


class Calls:
    """The calls of all ranks."""

    def __init__(self, communicators: Communicators, start: int, ticks: int) -> None:
        self._communicators = communicators
        self._start, self._ticks = start, ticks
        self._ranks = [_Rank(rank, communicators) for rank in range(len(communicators.ranks))]

    def add(self, location: Any, event: Any) -> None:
        """Add an event to the calls of its rank.

        Raises `TraceError` for communication of a location that is not a rank, for unsupported collective
        operations, and for communicators whose ranks are not recorded. Other events of locations that are
        not ranks are ignored.
        """
        kind = type(event).__name__
        rank = self._communicators.ranks.get(location)
        if rank is None:
            if kind.startswith("Mpi"):
                raise TraceError(f"location `{location.name}`, which is not a rank, communicates")
            return
        ns = (event.time - self._start) * 1_000_000_000 // self._ticks
        self._ranks[rank].add(kind, event, ns)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the recording."""
        yield f"# Recorded with OTF2, {len(self._ranks)} ranks"
        for number, members in enumerate(self._communicators.members):
            if number:
                yield f"COMM {number} members {' '.join(map(str, members))}"
        for rank in self._ranks:
            yield from rank.lines()


class _Rank:
    """The current call of a rank, and its finished calls."""

    def __init__(self, rank: int, communicators: Communicators) -> None:
        self._rank = rank
        self._communicators = communicators
        self._depth = 0
        self._begin = 0
        self._texts: list[str] = []
        self._ended: list[int] = []
        #: Start time (ns), end time (ns) and text of each call. A non-blocking receive has its request number
        #: instead of the text, which is known only when the receive completes.
        self._calls: list[tuple[int, int, str | int]] = []
        self._receives: dict[int, str] = {}

    def add(self, kind: str, event: Any, ns: int) -> None:
        if kind in ("Enter", "Leave") and not event.region.name.startswith("MPI_"):
            return
        if kind == "Enter":
            self._begin = ns if self._depth == 0 else self._begin
            self._depth += 1
        elif kind == "Leave":
            self._depth -= 1
            if self._depth == 0:
                self._close(ns)
        elif kind.startswith("Mpi"):
            if self._depth == 0:
                # A trace without regions contains the event, but not the start and end of the call.
                self._begin = ns
            self._event(kind, event, ns)
            if self._depth == 0:
                self._close(ns)

    def _event(self, kind: str, event: Any, ns: int) -> None:
        if kind in ("MpiSend", "MpiIsend"):
            request = f" req {event.request_id}" if kind == "MpiIsend" else ""
            name = "Isend" if request else "Send"
            self._texts.append(f"{name} dst {self._message(event, event.receiver)}{request}")
        elif kind == "MpiRecv":
            self._texts.append(f"Recv src {self._message(event, event.sender)}")
        elif kind == "MpiIrecvRequest":
            self._calls.append((self._begin, ns, event.request_id))
        elif kind == "MpiIrecv":
            words = self._message(event, event.sender).replace("bytes", "maxbytes")
            self._receives[event.request_id] = f"Irecv src {words} req {event.request_id}"
            self._ended.append(event.request_id)
        elif kind == "MpiIsendComplete":
            self._ended.append(event.request_id)
        elif kind == "MpiCollectiveEnd":
            self._texts += self._collective(event)

    def _message(self, event: Any, other: int) -> str:
        number = self._communicators.number(event.communicator, self._rank)
        world = self._communicators.members[number][other]
        return f"{world} bytes {event.msg_length} tag {event.msg_tag} comm {number}"

    def _collective(self, event: Any) -> list[str]:
        name = str(event.collective_op).rpartition(".")[2].upper()
        if name in SILENT:
            return []
        if name not in OPERATIONS:
            raise TraceError(f"rank {self._rank}: the collective operation {name} is not supported")
        number = self._communicators.number(event.communicator, self._rank)
        ranks = len(self._communicators.members[number])
        me = self._communicators.members[number].index(self._rank)
        size = _size(name, event.size_sent, event.size_received, ranks, me)
        root = f" root {event.root}" if name in ("BCAST", "REDUCE", "GATHER", "SCATTER") else ""
        word = "bytes_per_peer" if name == "ALLTOALL" else "bytes"
        return [f"{OPERATIONS[name]}{root} {word} {size} comm {number} size {ranks}"]

    def _close(self, ns: int) -> None:
        texts = self._texts
        if len(texts) == 2 and texts[0].startswith("Send ") and texts[1].startswith("Recv "):
            # A call that sends and receives is MPI_Sendrecv.
            received = texts[1].replace("bytes", "rbytes").replace("tag", "rtag").removeprefix("Recv ")
            texts = [f"{texts[0].replace('Send', 'Sendrecv', 1)} {received.rpartition(' comm ')[0]}"]
        self._calls += [(self._begin, ns, text) for text in texts]
        # Keep calls without messages, so that their duration does not count as computation.
        if self._ended or not texts:
            self._calls.append(
                (self._begin, ns, " ".join(["Waitall n", str(len(self._ended)), *map(str, self._ended)]))
            )
        self._texts, self._ended = [], []

    def lines(self) -> Iterator[str]:
        for begin, end, call in self._calls:
            # A receive that never completed has no source. No call waits for it, so it is omitted.
            text = self._receives.get(call) if isinstance(call, int) else call
            if text is not None:
                yield f"{self._rank} {begin} {end} {text}"


def _size(name: str, sent: int, received: int, ranks: int, me: int) -> int:
    """Return the size of the vector or block of a collective operation, in bytes.

    Score-P does not count the data that an in-place operation leaves in place (`scorep_mpi_coll_bytes_*`).
    """
    by_name: Mapping[str, int] = {
        "BARRIER": 0,
        "BCAST": received,
        "GATHER": sent or received // max(ranks - 1, 1),
        "REDUCE": sent or received // max(ranks - 1, 1),
        "SCATTER": received or sent // max(ranks - 1, 1),
        "SCAN": received // (me + 1),
    }
    if name in by_name:
        return by_name[name]
    shared = received if name == "ALLGATHER" else sent
    in_place = shared % ranks != 0 and ranks > 1 and shared % (ranks - 1) == 0
    return shared // (ranks - 1 if in_place else ranks)
