"""The fields of formats of measurements, and what their readers do with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

#: `used`: affects the result. `noted`: ignored, and a note names it if it occurs. `refused`: the field, or a
#: value of it that would have an effect, is an error. `text`: a name or remark that cannot affect a result.
Handling = Literal["used", "noted", "refused", "text"]


def _fields(used: str = "", noted: str = "", refused: str = "", text: str = "") -> dict[str, Handling]:
    named: tuple[tuple[Handling, str], ...] = (
        ("used", used), ("noted", noted), ("refused", refused), ("text", text),
    )  # fmt: skip
    return {name: handling for handling, names in named for name in names.split(";") if name}


#: perftest's columns and settings. A unit in brackets belongs to the column's name.
PERFTEST: Mapping[str, Handling] = _fields(
    used="#bytes;t_min[usec];t_typical[usec];t_avg[usec];BW average[MB/sec];BW average[MiB/sec];"
    "BW average[Gb/sec];MsgRate[Mpps];BW Port1[MB/sec];BW Port1[MiB/sec];BW Port1[Gb/sec];test;"
    "Number of qps;TX depth;Mtu",
    noted="#sl;BW peak[MB/sec];BW peak[MiB/sec];BW peak[Gb/sec];t_max[usec];t_stdev[usec];"
    "99% percentile[usec];99.9% percentile[usec];tps average;CPU_Util[%];MsgRate Port1[Mpps];"
    "BW Port2[MB/sec];BW Port2[MiB/sec];BW Port2[Gb/sec];MsgRate Port2[Mpps];Post List;Recv Post List",
    refused="#flows;Bidirectional;Multicast;forwarding;Dual-port",
    text="#iterations;other settings;addresses",
)
#: The text of nccl-tests.
NCCL_TEXT: Mapping[str, Handling] = _fields(
    used="size;time;algbw;busbw;#wrong;Rank;on;Collective test starting",
    noted="count;type;in-place;i_min;i_max;i_p99;i_cv%;Out of bounds values",
    refused="cputime;Group",
    text="redop;root;timestamp;error;Pid;device;nThread;version;Avg bus bandwidth;other lines",
)
#: Results of nccl-tests in JSON. Only the names of these fields are read; the content of others is dropped.
NCCL_JSON: Mapping[str, Handling] = _fields(
    used="version;args;config;devices;rank;hostname;results;size;out_of_place;in_place;time;alg_bw;bus_bw;"
    "nwrong",
    noted="count;type;out_of_place_per_iter;in_place_per_iter;out_of_bounds;errors",
    refused="cpu_time;group",
    text="env;start_time;end_time;nccl_version;redop;root;pid;device;device_hex;device_info;"
    "actual_iterations;experiment_name;average_bus_bandwidth",
)
#: The table of nccl-tests in CSV (`-F`), with three rows of names.
NCCL_CSV: Mapping[str, Handling] = _fields(
    used="size;time;algbw;busbw;#wrong",
    noted="count;type;in-place",
    refused="cputime",
    text="redop;root;nthreads;ngpus;minbytes;maxbytes;stepbytes;stepfactor;check;warmup_iters;iters;"
    "agg_iters;op;datatype;parallel_init;blocking;stream_null;timeout;cudagraph;report_cputime",
)

FORMATS: Mapping[str, Mapping[str, Handling]] = {
    "perftest": PERFTEST,
    "nccl-tests, text": NCCL_TEXT,
    "nccl-tests, JSON": NCCL_JSON,
    "nccl-tests, CSV": NCCL_CSV,
}


def note(found: set[str]) -> tuple[str, ...]:
    """Return a note that names the fields that are not used, if there are any."""
    return (f"not used: {', '.join(sorted(found))}",) if found else ()
