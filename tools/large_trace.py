"""Writes a large trace: ranks in a ring that compute, send to the next one and receive from the previous one.

    python tools/large_trace.py goal 64 10000000000 ring.goal
    python tools/large_trace.py goal-binary 64 10000000000 ring.bin
    python tools/large_trace.py chakra 64 10000000000 ring.0.et

The arguments are the format, the number of ranks, about how many bytes to write, and the file (for Chakra,
that of rank 0). With `--silvan`, another process checks the trace afterwards, and its largest
resident memory is printed; `--in-memory N` limits the operations and dependencies that it keeps
in memory.
"""

from __future__ import annotations

import argparse
import re
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

#: Bytes of a message, ns of a computation. Ranks differ a little, so that events are not simultaneous.
BYTES, NS = 1024, 1000
#: Iterations that are formatted or computed at once.
CHUNK = 20_000
#: An operation of binary GOAL.
RECORD = np.dtype(
    [
        *(("waits", "<u4"), ("kind", "u1"), ("peer", "<u4"), ("size", "<u8"), ("tag", "<u4"), ("cpu", "u1")),
        *(("nic", "u1"), ("finish", "<u4"), ("finish_at", "<u4"), ("start", "<u4"), ("start_at", "<u4")),
    ]
)


def goal(ranks: int, size: int, path: Path) -> None:
    """Write text GOAL. Ranks differ only in their peers and times, which are inserted into the same text."""
    iterations = max(1, size // ranks // 190)
    texts = []
    for first in range(0, iterations, CHUNK):
        text = []
        for k in range(3 * first, 3 * min(first + CHUNK, iterations), 3):
            text.append(f"l{k}: calc @\n")
            if k:
                text.append(f"l{k} requires l{k - 2}\nl{k} requires l{k - 1}\n")
            text.append(
                f"l{k + 1}: send {BYTES}b to # tag 7\nl{k + 1} requires l{k}\n"
                f"l{k + 2}: recv {BYTES}b from % tag 7\nl{k + 2} requires l{k}\n"
            )
        texts.append("".join(text))
    with path.open("w") as out:
        out.write(f"num_ranks {ranks}\n")
        for rank in range(ranks):
            out.write(f"rank {rank} {{\n")
            for whole in texts:
                own = whole.replace("@", str(NS + rank)).replace("#", str((rank + 1) % ranks))
                out.write(own.replace("%", str((rank - 1) % ranks)))
            out.write("}\n")


def goal_binary(ranks: int, size: int, path: Path) -> None:
    """Write binary GOAL."""
    iterations = max(1, size // ranks // (3 * RECORD.itemsize + 16))
    edges = 4 * iterations - 2
    with path.open("wb") as out:
        out.write(struct.pack("<QIBB", 4223, ranks, 0, 0))
        length = 8 + 4 + 3 * RECORD.itemsize * iterations + 4 * edges
        start = 6 + 16 * ranks
        out.write(
            b"".join(struct.pack("<QQ", start + r * length, start + (r + 1) * length) for r in range(ranks))
        )
        for rank in range(ranks):
            out.write(struct.pack("<III", 3 * iterations, 1, 0))
            for first in range(0, iterations, CHUNK):
                k = np.arange(first, min(first + CHUNK, iterations))
                records = np.zeros((len(k), 3), RECORD)
                records["kind"] = (3, 1, 2)
                records["waits"] = np.stack(
                    [np.where(k == 0, 0, 2), np.ones_like(k), np.ones_like(k)], axis=1
                )
                records["peer"] = (0, (rank + 1) % ranks, (rank - 1) % ranks)
                records["size"] = (NS + rank, BYTES, BYTES)
                records["tag"] = (0, 7, 7)
                last = np.where(k == iterations - 1, 0, 1)
                records["finish"] = np.stack([np.full_like(k, 2), last, last], axis=1)
                records["finish_at"] = 4 * k[:, None] + np.array((0, 2, 3))
                out.write(records.tobytes())
            for first in range(0, iterations, CHUNK):
                k = np.arange(first, min(first + CHUNK, iterations))[:, None]
                numbers = (3 * k + np.array((1, 2, 3, 3))).astype("<u4").reshape(-1)
                out.write((numbers[:-2] if first + CHUNK >= iterations else numbers).tobytes())


def varint(number: int) -> bytes:
    """Return a number as protobuf encodes it."""
    parts = bytearray()
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def message(field: int, content: bytes) -> bytes:
    """Return a field of protobuf with a length."""
    return varint(field << 3 | 2) + varint(len(content)) + content


def attribute(name: str, value: int) -> bytes:
    """Return an attribute of a node of Chakra, with a number (`uint64_val`)."""
    return message(10, message(1, name.encode()) + varint(13 << 3) + varint(value))


def nodes(ranks: int, rank: int, iterations: int) -> Iterator[bytes]:
    """Yield the nodes of a rank of Chakra, with their lengths."""
    sizes = attribute("comm_size", BYTES) + attribute("comm_tag", 7)
    send = b"\x18\x05" + sizes + attribute("comm_dst", (rank + 1) % ranks)
    recv = b"\x18\x06" + sizes + attribute("comm_src", (rank - 1) % ranks)
    for k in range(0, 3 * iterations, 3):
        after = b"" if k == 0 else message(5, varint(k - 2) + varint(k - 1))
        compute = b"\x08" + varint(k) + b"\x18\x04" + after + b"\x38" + varint(1 + rank % 3)
        own = message(5, varint(k))
        for node in (compute, b"\x08" + varint(k + 1) + own + send, b"\x08" + varint(k + 2) + own + recv):
            yield varint(len(node)) + node


def chakra(ranks: int, size: int, path: Path) -> None:
    """Write a file of Chakra for each rank."""
    iterations = max(1, size // ranks // 125)
    for rank in range(ranks):
        with path.with_name(path.name.replace(".0.", f".{rank}.")).open("wb") as out:
            out.write(b"\x07\x0a\x050.0.4")
            out.writelines(nodes(ranks, rank, iterations))


WRITERS: dict[str, Callable[[int, int, Path], None]] = {
    "goal": goal,
    "goal-binary": goal_binary,
    "chakra": chakra,
}


def check(path: Path, in_memory: int | None) -> None:
    """Check a trace in another process, and print its result, its time and its resident memory."""
    options = "" if in_memory is None else f", in_memory={in_memory}"
    program = (
        "import resource, sys; from silvan import traces\n"
        "costs = {'latency': '1 us', 'overhead': '200 ns', 'bandwidth': '100 Gbit/s'}\n"
        f"found = traces.check(sys.argv[1], **costs{options})\n"
        "print(found['contents'], {key: found['run'][key] for key in ('complete', 'span_ps', 'messages')})\n"
        "print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False
    )
    took = time.monotonic() - began
    print(done.stdout + done.stderr, end="")
    peak = re.search(r"peak (\d+)", done.stdout)
    if peak:
        print(f"{took:.1f} s, {int(peak[1]) / 1024:,.0f} MiB resident")


def main() -> None:
    """Write, and perhaps check, a trace."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("format", choices=WRITERS)
    parser.add_argument("ranks", type=int)
    parser.add_argument("bytes", type=int)
    parser.add_argument("path", type=Path)
    parser.add_argument("--silvan", action="store_true")
    parser.add_argument("--in-memory", type=int)
    arguments = parser.parse_args()
    if not arguments.path.exists():
        WRITERS[arguments.format](arguments.ranks, arguments.bytes, arguments.path)
    if arguments.silvan:
        check(arguments.path, arguments.in_memory)


if __name__ == "__main__":
    main()
