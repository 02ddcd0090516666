"""Checks traces of parallel applications, converts them to GOAL, and generates them.

>>> from silvan import traces
>>> checked = traces.check("tests/data/traces/hpcc-8/mpifft-8ranks.txt.gz", latency="1 us")
>>> checked["contents"]["ranks"], checked["run"]["complete"]
(8, True)
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from silvan import _core, _files
from silvan._core import TraceError
from silvan.types import TraceCheck, WrittenTrace

#: Names of the HPC Challenge kernels that can be generated.
KERNELS = ("ping-pong", "natural-ring", "random-ring", "ptrans", "hpl", "fft", "random-access")

#: Names of the collective operations that can be generated.
COLLECTIVES = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "barrier",
    "scan",
)
#: All kinds of traces that can be generated.
KINDS = (*KERNELS, *COLLECTIVES, "transformer")


def check(path: str | PathLike[str], *, stream: bool = False, **request: Any) -> TraceCheck:
    """Read a trace and run it without a network.

    `request` contains the options of the reader (`format`, `time_scale`, `compute_scale`, `host_flops` in
    flop/s, `host_bandwidth` of the memory, such as ``"2000 GB/s"``, `ranks` of a workload without
    ``all_gpus``, `bytes` of an algorithm of MSCCL, such as ``"16 MiB"``, `algorithms` as a mapping such as
    ``{"all-reduce": "ring"}``, `limit` of operations and dependencies, the number of them above which a GOAL
    or Chakra trace is in a temporary file, `in_memory`) and the costs of communication:
    `latency`, `overhead` and `gap` per message (strings such as ``"1 us"``), `bandwidth` of a network
    interface and `copy` of a CPU (``"100 Gbit/s"``), and the size of the largest eager
    message, `rendezvous_above` (``"64 KiB"``). Costs default to zero.

    With `stream`, binary GOAL and VEF files are only read, without keeping them in memory, and `run` is None.
    OTF2 (`.otf2`) needs the optional dependency: ``silvan[otf2]``.

    Raises `TraceError` if the trace or an argument is invalid.
    """
    with _readable(Path(path), request) as (source, known):
        checked = _core.trace_check(source, json.dumps(known), stream)
    if source != Path(path):
        checked["format"], checked["files"] = "otf2", [str(path)]
    return checked


def convert(path: str | PathLike[str], out: str | PathLike[str], **request: Any) -> WrittenTrace:
    """Read a trace and write it as GOAL: as text if `out` ends in `.goal`, as binary if it ends in `.bin`.

    `request` contains the options of the reader, as in :func:`check`. Raises `TraceError` if the trace
    or an argument is invalid or the trace cannot be represented in GOAL, and `OSError` if `out` cannot be
    written.
    """
    target = Path(out)
    if os.path.realpath(target) == os.path.realpath(path):
        raise TraceError(f"{target} is the trace itself; choose another file")
    binary = _is_binary(target)
    with _readable(Path(path), request) as (source, known), _files.replacing(target) as partial:
        return _core.trace_convert(source, json.dumps(known), partial, binary)


def generate(
    kind: str, out: str | PathLike[str], *, algorithms: Mapping[str, str] | None = None, **sizes: Any
) -> WrittenTrace:
    """Generate a trace from sizes and write it as GOAL, like :func:`convert`.

    `kind` is one of :data:`KERNELS`, with sizes `ranks`, `bytes`, `iterations`, `pairs`, `n`, `nb`, `points`,
    `messages`, `flops`, `seed`; one of :data:`COLLECTIVES`, with `ranks`, `groups`, `bytes`, `iterations`,
    `compute_ns`; or `transformer`, with `layers`, `hidden`, `feed_forward`, `vocabulary`, `sequence`,
    `micro_batch`, `micro_batches`, `bytes`, `gradient_bytes`, `tensor`, `context`, `pipeline`, `data`,
    `flops`, `steps`.
    See `docs/traces.md`. Raises `TraceError` if an argument is invalid, and `OSError` if `out` cannot be
    written.
    """
    if kind not in KINDS:
        raise TraceError(f"`{kind}` is not one of {', '.join(KINDS)}")
    family = "kernel" if kind in KERNELS else "collective" if kind in COLLECTIVES else "transformer"
    if family != "transformer":
        sizes["kernel" if family == "kernel" else "operation"] = kind
    target = Path(out)
    binary = _is_binary(target)
    request = json.dumps({"algorithms": dict(algorithms or {})})
    with _files.replacing(target) as partial:
        return _core.trace_generate(family, json.dumps(sizes), request, partial, binary)


@contextmanager
def _readable(path: Path, request: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield a file that the core can read, and the request: the trace, or a recording converted from OTF2."""
    if path.suffix != ".otf2" and request.get("format") != "otf2":
        yield path, request
        return
    from silvan import _otf2

    with tempfile.TemporaryDirectory(prefix="silvan-") as folder:
        recording = Path(folder) / "recording.txt"
        with recording.open("w", encoding="utf-8") as out:
            _otf2.write(path, out)
        try:
            yield recording, request | {"format": "hpcc"}
        except TraceError as error:
            raise TraceError(str(error).replace(str(recording), str(path), 1)) from None


def _is_binary(out: Path) -> bool:
    if out.suffix not in (".goal", ".bin"):
        raise TraceError(f"{out}: a trace is written as GOAL, to NAME.goal (text) or NAME.bin (binary)")
    return out.suffix == ".bin"
