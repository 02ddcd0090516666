"""Tests the readers of measurements: formats, units, and files that are wrong."""

import json
import re
from random import Random

import pytest

from conftest import ROOT
from silvan.calibration import fields, keys, measurements, nccl, perftest, written
from silvan.calibration.measurements import CalibrationError
from silvan.calibration.nccl import Given

SIZES = [2, 4096, 65536, 8 << 20]
TIMES = [2.1e-6, 2.3e-6, 4.5e-6, 190e-6]

LATENCY = """
                    RDMA_Write Latency Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
 Number of qps   : 1\t\tTransport type : IB
 Mtu             : 4096[B]
 Link type       : IB
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]
 2       1000          2.00           9.10         2.10
 8388608 1000          170.00         250.10       190.00
---------------------------------------------------------------------------------------
"""
BANDWIDTH = """
                    Send BW Test
 Number of qps   : 4\t\tTransport type : IB
 TX depth        : 64
 Mtu             : 4096[B]
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      5000             11100.00           11038.80             0.176621
---------------------------------------------------------------------------------------
"""
NCCL = """# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20
# Using devices
#  Rank  0 Group  0 Pid   1234 on  node1 device  0 [0000:1b:00] NAME
#  Rank  1 Group  0 Pid   1235 on  node2 device  0 [0000:1b:00] NAME
#
#       size     count   type  redop   root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)  (elements)                        (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
        1024       256  float    sum     -1    20.48    0.05    0.05      0    20.50    0.05    0.05    N/A
"""


def saved(tmp_path, text, name="test.txt"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refused(read, *arguments):
    with pytest.raises(CalibrationError) as caught:
        read(*arguments)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 500
    return message


def test_an_older_table_of_latencies(tmp_path):
    read = perftest.read(saved(tmp_path, LATENCY), "latency")
    assert [row.size for row in read.rows] == [2, 8 << 20]
    assert [row.time_s for row in read.rows] == pytest.approx([2.1e-6, 190e-6])
    assert read.rows[0].least_s == pytest.approx(2e-6)
    assert (read.operation, read.mtu, read.outstanding) == ("RDMA_Write", 4096, 128)
    assert read.notes == ("not used: t_max[usec]",)


def test_megabytes_are_powers_of_two(tmp_path):
    """92.6 Gbit/s is printed as 11,038.8 MB/s; with 10^6 bytes, it would be 4.63 % too little."""
    (row,) = perftest.read(saved(tmp_path, BANDWIDTH), "bandwidth").rows
    rate = row.size / row.time_s
    assert rate * 8 == pytest.approx(92.6e9, rel=1e-4)
    assert 1 - 11038.8e6 / rate == pytest.approx(0.0463, abs=5e-5)


@pytest.mark.parametrize("unit", ["MB/sec", "MiB/sec", "Gb/sec"])
def test_all_units_state_the_same_bandwidth(tmp_path, unit):
    text = written.bandwidth_text(SIZES, TIMES, mtu=4096, unit=unit)
    read = perftest.read(saved(tmp_path, text), "bandwidth")
    assert [row.time_s for row in read.rows] == pytest.approx(TIMES, rel=1e-4)


def test_the_messages_in_flight_are_those_of_all_queue_pairs(tmp_path):
    assert perftest.read(saved(tmp_path, BANDWIDTH), "bandwidth").outstanding == 4 * 64


@pytest.mark.parametrize(
    ("header", "row", "time_s"),
    [
        ("#bytes #iterations t_avg[usec] tps average", "2 1000 2.50 400000.00", 2.5e-6),
        (
            "#bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] t_stdev[usec] "
            "99% percentile[usec] 99.9% percentile[usec] CPU_Util[%]",
            "2 1000 2.00 9.00 2.10 2.20 0.10 3.00 4.00 1.00",
            2.1e-6,
        ),
    ],
)
def test_headers_of_latencies(tmp_path, header, row, time_s):
    (read,) = perftest.read(saved(tmp_path, f" {header}\n {row}\n----------\n"), "latency").rows
    assert read.time_s == pytest.approx(time_s)


@pytest.mark.parametrize(
    ("header", "row"),
    [
        (
            "#bytes #sl #iterations BW peak[MiB/sec] BW average[MiB/sec] MsgRate[Mpps]",
            "1048576 3 9 0 100 0.0001",
        ),
        (
            "#bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps] CPU_Util[%]",
            "125000 9 0 1 0.001 5",
        ),
        (
            "#bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps] BW Port1[MB/sec] "
            "MsgRate Port1[Mpps] BW Port2[MB/sec] MsgRate Port2[Mpps]",
            "1048576 9 0 200 0.0002 100 0.0001 100 0.0001",
        ),
    ],
)
def test_headers_of_bandwidths(tmp_path, header, row):
    """With two ports, the rate of the first is that of a link."""
    (read,) = perftest.read(saved(tmp_path, f" {header}\n {row}\n----------\n"), "bandwidth").rows
    expected = 0.01 if read.size == 1 << 20 else 0.001
    assert read.time_s == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (("2.10", "2,10"), (":9:", "t_typical[usec]", "`2,10`", "LC_ALL=C")),
        (("2.10", "nan"), (":9:", "`nan`")),
        (("2.10", "-2.10"), (":9:", "`-2.10`")),
        (("2.10", "N/A"), (":9:", "`N/A`")),
        (("2.10", "0.00"), (":9:", "more than 0")),
        (("         2.10", ""), (":9:", "4 values", "5 columns")),
        (("t_max[usec]", "t_most[usec]"), (":8:", "`t_most[usec]")),
        (("8388608 1000", "2 1000   "), (":10:", "size 2 again", "line 9")),
        (("8388608", "9" * 20), (":10:", "2^40")),
        (("Latency Test", "BW Test"), ()),
        (("Mtu             : 4096[B]", "Mtu             : big"), (":8:", "Mtu = `big`")),
        ((LATENCY, BANDWIDTH), (":7:", "--bandwidth")),
        (("190.00", "9" * 5000), (":10:", "at most 4,096")),
        (("190.00", "19\x000.00"), (":10:", "control character 0x0")),
        ((LATENCY, "no table"), ("#bytes",)),
        ((LATENCY, ""), ("#bytes",)),
        (("RDMA_Write Latency", "RDMA_Write Latency Multicast"), (":2:", "two hosts")),
    ],
)
def test_a_wrong_latency_names_file_line_and_what_is_valid(tmp_path, change, names):
    path = saved(tmp_path, LATENCY.replace(*change))
    if not names:
        perftest.read(path, "latency")
        return
    message = refused(perftest.read, path, "latency")
    assert message.startswith(str(path))
    assert [name for name in names if name not in message] == []


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (("Send BW", "Send Bidirectional BW"), ("both directions",)),
        (("0.176621", "0.276621"), ("within 1 %", "2^20")),
        (("0.176621", "inf"), ("MsgRate[Mpps] = `inf`",)),
        (("11038.80", "0.00"), ("more than 0",)),
        (("Number of qps   : 4", "Dual-port : ON"), ("Dual-port = ON",)),
        (("TX depth        : 64", "TX depth        : 0"), ("TX depth = `0`",)),
        (("65536  ", "0      "), ("at least 1 byte",)),
    ],
)
def test_a_wrong_bandwidth_is_refused(tmp_path, change, names):
    message = refused(perftest.read, saved(tmp_path, BANDWIDTH.replace(*change)), "bandwidth")
    assert [name for name in names if name not in message] == []


def test_a_binary_or_a_large_file_is_refused_before_it_is_parsed(tmp_path):
    assert "UTF-8" in refused(perftest.read, saved(tmp_path, b"\xff\xfe#bytes"), "latency")
    large = saved(tmp_path, b"", "large.txt")
    with large.open("wb") as opened:
        opened.truncate(1 << 40)
    assert "at most 4,194,304" in refused(perftest.read, large, "latency")
    assert "at most 16,777,216" in refused(nccl.read, large)


def test_windows_lines_and_a_missing_end_are_accepted(tmp_path):
    read = perftest.read(saved(tmp_path, LATENCY.replace("\n", "\r\n")), "latency")
    assert len(read.rows) == 2
    cut = LATENCY[: LATENCY.rindex("------------")].rstrip("-\n")
    read = perftest.read(saved(tmp_path, cut), "latency")
    assert "may be incomplete" in read.notes[-1]


def test_a_loop_over_sizes_is_one_test_but_two_tests_are_not(tmp_path):
    one, other = LATENCY.replace("8388608", "16     "), LATENCY.replace(" 2      ", " 32     ")
    both = perftest.read(saved(tmp_path, one + other), "latency")
    assert [row.size for row in both.rows] == [2, 16, 32, 8 << 20]
    assert "again" in refused(perftest.read, saved(tmp_path, LATENCY + LATENCY), "latency")
    other = other.replace("RDMA_Write", "Send")
    assert "other settings" in refused(perftest.read, saved(tmp_path, one + other), "latency")


@pytest.mark.parametrize("ranks", [2, 8, 128])
@pytest.mark.parametrize("ending", ["txt", "json", "csv"])
def test_formats_of_nccl_tests_state_the_same_times(tmp_path, ranks, ending):
    write = {"txt": written.nccl_text, "json": written.nccl_json, "csv": written.nccl_csv}[ending]
    sizes, times = [1024, 1 << 20, 1 << 30], [31.25e-6, 250e-6, 12.5e-3]
    given = Given("all-reduce", ranks) if ending == "csv" else Given()
    read = nccl.read(saved(tmp_path, write("all-reduce", ranks, sizes, times), f"test.{ending}"), given)
    assert [row.time_s for row in read.rows] == pytest.approx(times, rel=1e-3)
    assert (read.operation, read.ranks) == ("all-reduce", ranks)


def test_the_factor_of_bus_bandwidth():
    assert [nccl.factor("all-reduce", ranks) for ranks in (2, 8, 128)] == [1.0, 1.75, 1.984375]
    assert nccl.factor("all-gather", 8) == nccl.factor("all-to-all", 8) == 0.875
    assert nccl.factor("broadcast", 8) == 1.0


@pytest.mark.parametrize("ranks", [2, 8, 128])
def test_a_bus_bandwidth_that_contradicts_the_time_is_an_error(tmp_path, ranks):
    text = written.nccl_json("all-reduce", ranks, [1 << 30], [12.5e-3])
    document = json.loads(text)
    place = document["results"][0]["out_of_place"]
    place["bus_bw"] *= 1.02
    message = refused(nccl.read, saved(tmp_path, json.dumps(document), "test.json"))
    assert f"all-reduce of {ranks} ranks has {nccl.factor('all-reduce', ranks):.6g}" in message
    place["alg_bw"] *= 1.02
    assert "is not size / time" in refused(nccl.read, saved(tmp_path, json.dumps(document), "test.json"))


def test_a_short_time_is_computed_from_the_bandwidth(tmp_path):
    """A time of 1.2e+07 us has two digits, its bandwidth has five."""
    row = " 858993459200 214748364800 float sum -1 1.2e+07 70.123 70.123 0 1.2e+07 70.123 70.123 0\n"
    read = nccl.read(saved(tmp_path, NCCL + row), Given("all-reduce"))
    assert read.rows[-1].time_s == pytest.approx(858993459200 / 70.123e9)
    exact = " 2048 512 float sum -1 20.48 0.10 0.10 0 20.48 0.10 0.10 0\n"
    tiny = " 8 2 float sum -1 20.48 0.00 0.00 0 20.48 0.00 0.00 0\n"
    read = nccl.read(saved(tmp_path, NCCL + exact + tiny), Given("all-reduce"))
    assert [row.time_s for row in read.rows] == pytest.approx([20.48e-6] * 3)


def test_columns_per_iteration_and_time_stamps(tmp_path):
    names = "time algbw busbw #wrong i_min i_max i_p99 i_cv%"
    text = (
        "# Collective test starting: /opt/all_gather_perf\n"
        + NCCL.split("#       size", maxsplit=1)[0]
        + f"# size count type redop root {names} {names} timestamp\n"
        "1024 256 float none -1 20.48 0.05 0.03 0 19 22 22 1.2 20.5 0.05 0.03 0 19 22 22 1 "
        "2026-01-02 10:00:00\n"
    )
    read = nccl.read(saved(tmp_path, text.replace("/opt/", "")))
    assert read.operation == "all-gather"
    assert "i_cv%" in read.notes[0]
    assert read.node_names == ("node1", "node2")


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (("20.48", "nan"), (":8:", "`nan`")),
        (("20.48", "20,48"), (":8:", "LC_ALL=C")),
        (("0    20.50    0.05    0.05    N/A", ""), (":8:", "values")),
        (("    0.05      0    20.50", "    0.05      7    20.50"), (":8:", "#wrong = 7")),
        (("time   algbw   busbw #wrong     time", "cputime algbw busbw #wrong time"), (":6:", "-C 1")),
        (("busbw #wrong     time", "busbus #wrong     time"), (":6:", "`busbus`")),
        (("Group  0 Pid   1235", "Group  1 Pid   1235"), (":4:", "NCCL_TESTS_SPLIT")),
        (("Rank  1", "Rank  0"), (":4:", "rank 0")),
        (("Rank  1", "Rank  5"), ("0 to 1",)),
        ((NCCL.splitlines()[-1], ""), ("all_reduce_perf",)),
        (("# nThread", "# Collective test starting: sendrecv_perf\n# nThread"), ("sendrecv_perf",)),
        (("        1024 ", "        0 "), ("size above 0",)),
    ],
)
def test_a_wrong_text_of_nccl_tests_is_refused(tmp_path, change, names):
    text = NCCL.replace(*change, 1)
    message = refused(nccl.read, saved(tmp_path, text), Given("all-reduce"))
    assert [name for name in names if name not in message] == []


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"version": 1}, ("version = 1", "must be 2")),
        ({"results": []}, ("results: must be a list",)),
        ({"results": [{"size": 8, "out_of_place": {"time": "nan", "alg_bw": 1, "bus_bw": 1}}]}, ("`nan`",)),
        ({"results": [{"size": 8, "out_of_place": {"cpu_time": 1.0}}]}, ("-C 1",)),
        ({"results": [{"size": -8, "out_of_place": {"time": 1, "alg_bw": 1, "bus_bw": 1}}]}, ("`-8`",)),
        ({"results": [7]}, ("results[0]",)),
        ({"config": {}}, ("config.devices",)),
        ({"config": {"devices": [{"rank": 3, "hostname": "a"}]}}, ("0 to 0",)),
    ],
)
def test_a_wrong_json_of_nccl_tests_is_refused(tmp_path, change, names):
    document = json.loads(written.nccl_json("all-reduce", 2, [1024], [1e-5])) | change
    message = refused(nccl.read, saved(tmp_path, json.dumps(document), "test.json"))
    assert [name for name in names if name not in message] == []


@pytest.mark.parametrize("text", ["{", "{" * 100_000, '{"version": NaN}', '{"version": 2, "results": 1e999}'])
def test_broken_json_is_refused(tmp_path, text):
    refused(nccl.read, saved(tmp_path, text, "test.json"))


def test_the_environment_of_the_process_is_dropped(tmp_path):
    document = json.loads(written.nccl_json("all-reduce", 2, [1024], [1e-5]))
    document["env"] = ["SECRET=hunter2"]
    document["start_time"] = "today"
    document["surprise"] = 1
    read = nccl.read(saved(tmp_path, json.dumps(document), "test.json"))
    assert "hunter2" not in repr(read)
    assert read.notes == ("not used: `surprise`, count, in_place, type",)


def test_lines_of_other_programs_are_counted_but_not_shown(tmp_path):
    read = nccl.read(saved(tmp_path, f"NCCL INFO SECRET=hunter2\n{NCCL}"), Given("all-reduce"))
    assert "hunter2" not in repr(read)
    assert read.notes[-2] == "1 line of other text is not used"


def test_warnings_between_the_rows_of_perftest_are_noted(tmp_path):
    """The first line is printed there if cores have different frequencies; the last row is damaged."""
    warning = "Conflicting CPU frequency values detected: 1200.0 != 3300.0. CPU Frequency is not max.\n"
    for text, kind in ((LATENCY, "latency"), (BANDWIDTH, "bandwidth")):
        header = next(line for line in text.splitlines() if "#bytes" in line) + "\n"
        path = saved(tmp_path, text.replace(header, header + warning * 2))
        whole = perftest.read(saved(tmp_path, text, "whole.txt"), kind)
        read = perftest.read(path, kind)
        assert [row.time_s for row in read.rows] == [row.time_s for row in whole.rows]
        assert "2 lines of other text are not used" in read.notes
    refused(perftest.read, saved(tmp_path, LATENCY.replace(" 8388608 ", " -8388608 ")), "latency")


def test_the_end_of_a_table_of_nccl_tests_is_missed(tmp_path):
    whole = written.nccl_text("all-reduce", 2, [8, 1024], [1e-5, 1e-5])
    cut = whole[: whole.index("# Out of bounds")]
    assert "may be incomplete" in nccl.read(saved(tmp_path, cut)).notes[-1]
    assert "incomplete" not in str(nccl.read(saved(tmp_path, whole)).notes)


def test_files_of_the_other_program_are_named(tmp_path):
    path = saved(tmp_path, LATENCY)
    assert "give it with --latency or --bandwidth" in refused(nccl.read, path)
    assert "give it with --nccl" in refused(perftest.read, saved(tmp_path, NCCL), "bandwidth")
    empty = re.sub(r"^ (2|8388608) .*\n", "", LATENCY, flags=re.MULTILINE)
    assert "what the client of a finished test printed" in refused(
        perftest.read, saved(tmp_path, empty), "latency"
    )


@pytest.mark.parametrize("number", ["\u0662.\u0661\u0660", "\uff12.10"])
def test_digits_of_other_scripts_are_refused(tmp_path, number):
    """Python's `float` reads them, but no test writes them."""
    assert "decimal point" in refused(
        perftest.read, saved(tmp_path, LATENCY.replace("2.10", number)), "latency"
    )
    assert keys.parse(keys.SWITCH, "2 ns") == 2e-9
    with pytest.raises(CalibrationError, match="such as 25 ns"):
        keys.parse(keys.SWITCH, "\u0662 ns")


def test_a_wrong_result_in_json_is_named_by_its_number(tmp_path):
    document = json.loads(written.nccl_json("all-reduce", 2, [8, 8], [1e-5, 1e-5]))
    path = saved(tmp_path, json.dumps(document), "test.json")
    assert refused(nccl.read, path).startswith(
        f"{path}: results[1]: has the size 8 again, which results[0] has too"
    )
    document["results"][1]["size"] = -1
    path = saved(tmp_path, json.dumps(document), "test.json")
    assert refused(nccl.read, path).startswith(f"{path}: results[1]: size = `-1`")


def test_decimal_commas_in_csv_are_explained(tmp_path):
    text = written.nccl_csv("all-gather", 8, [1 << 20], [1e-4])
    path = saved(tmp_path, re.sub(r"(\d)\.(\d)", r"\1,\2", text), "test.csv")
    assert "LC_ALL=C" in refused(nccl.read, path, Given("all-gather"))


def test_a_csv_needs_the_operation(tmp_path):
    text = written.nccl_csv("all-gather", 8, [1 << 20], [1e-4])
    path = saved(tmp_path, text, "test.csv")
    assert "--collective" in refused(nccl.read, path)
    read = nccl.read(path, Given("all-gather"))
    assert read.ranks == 8
    assert "3 values" in refused(nccl.read, saved(tmp_path, f"{text}1,2,3\n"), Given("all-gather"))


def test_control_characters_in_values_are_escaped():
    assert measurements.shown("a\u202eb") == "a\\u202eb"
    assert measurements.shown("x" * 100) == "x" * measurements.SHOWN_AT_MOST + "..."


def test_the_documentation_lists_the_fields():
    page = (ROOT / "docs" / "calibrate.md").read_text(encoding="utf-8")
    for name, handlings in fields.FORMATS.items():
        row = re.search(rf"^\| {re.escape(name)} \| (.*) \| (.*) \| (.*) \| (.*) \|$", page, re.MULTILINE)
        assert row is not None, name
        for cell, handling in zip(row.groups(), ("used", "noted", "refused", "text"), strict=True):
            listed = {one.strip(" `") for one in cell.split(",") if one.strip()}
            assert listed == {field for field, own in handlings.items() if own == handling}, (name, handling)


PIECES = [
    "nan", "-1", "1e999", "0", "N/A", ",", "\t", "\x00", "\u202e", "9" * 400, "{", "}", "null", "[]", '"',
    ":", "inf", "#", "# size count", "-1e5", "1_000", "\u0663", "\n", "1e-400", "0x10", "",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["latency", "bandwidth", "text", "json", "csv"])
def test_a_damaged_file_is_read_or_refused_in_one_line(tmp_path, kind):
    write = {"text": written.nccl_text, "json": written.nccl_json, "csv": written.nccl_csv}
    if kind in write:
        whole = write[kind]("all-reduce", 2, [8, 1024], [1e-5, 1e-5])
    else:
        whole = {"latency": LATENCY, "bandwidth": BANDWIDTH}[kind]
    random, told, read = Random(1), [], 0
    for _ in range(400):
        text = whole
        for _ in range(random.randint(1, 3)):
            at = random.randrange(len(text) + 1)
            text = text[:at] + random.choice(PIECES) + text[at + random.choice([0, 1, 3, 10, 60]) :]
        path = saved(tmp_path, text)
        try:
            given = nccl.read(path, Given("all-reduce", 2)) if kind in write else perftest.read(path, kind)
        except CalibrationError as error:
            told.append(str(error))
        else:
            assert all(0 < row.time_s <= 3600 for row in given.rows)
            read += 1
    assert read > 5
    assert len(told) > 100
    assert all(text.startswith(str(path)) for text in told)
    assert not [text for text in told if re.search(r"[\x00-\x1f\u202e]", text)]
