"""Tests congestion control settings from OpenSM's configuration file."""

import re
import shutil
import subprocess

import pytest
import tomllib

import silvan
from conftest import command
from silvan import _opensm

#: A file as OpenSM writes it, with control on for service level 0.
CONF = """
# Congestion Control OPTIONS
routing_engine updn
congestion_control TRUE
cc_key 0x0000000000000000
cc_sw_cong_setting_control_map 0x15
cc_sw_cong_setting_victim_mask 0x{mask:064x}
cc_sw_cong_setting_threshold 0x0d
cc_sw_cong_setting_packet_size 8
cc_sw_cong_setting_marking_rate 017
cc_ca_cong_setting_port_control 0x0000
cc_ca_cong_setting_control_map 0x0001
cc_ca_cong_setting_ccti_timer 0 150
cc_ca_cong_setting_ccti_increase 0 2
cc_ca_cong_setting_trigger_threshold 0 2
cc_ca_cong_setting_ccti_min 0 3
cc_cct 0:0,1:1,2:2,3:16383
"""


def conf(**options):
    """Return the file with other values of some options; `None` removes an option."""
    text = CONF.format(mask=0)
    for name, value in options.items():
        line = "" if value is None else f"{name} {value}"
        text, count = re.subn(rf"^{name} .*$", line, text, flags=re.MULTILINE)
        if not count:
            text += f"{line}\n"
    return text


def resolved(small, text, overrides=None):
    (small.parent / "opensm.conf").write_text(text)
    scenario, notes = _opensm.load(small, small.parent / "opensm.conf", overrides or {})
    return tomllib.loads(scenario.to_toml())["congestion"], notes


def test_every_option_with_an_effect_arrives(small):
    found, notes = resolved(small, conf())
    assert found["mechanism"] == "ib-cc"
    marking, reaction = found["marking"], found["reaction"]
    assert (marking["threshold"], marking["packet_size"], marking["marking_rate"]) == (13, 8, 15)
    assert marking["victim_mask"] == "none"
    assert (reaction["level"], reaction["ccti_limit"]) == ("qp", 3)
    entries = reaction["table"]["entries"]
    assert entries[:3] == [0, 1 << 14 | 1, 2 << 14 | 2]
    assert len(entries) == 128
    assert set(entries[3:]) == {0xFFFF}
    assert reaction["per_sl"][0] == {"sl": 0, "ccti_timer": 150, "ccti_increase": 2, "ccti_min": 3}
    assert [level["ccti_increase"] for level in reaction["per_sl"][1:]] == [0] * 15
    assert any("1 options are not about congestion control" in note for note in notes)
    assert any("of SL 0 is 2, but indices rise from 3 to 3: no events" in note for note in notes)


def test_a_trigger_threshold_that_an_index_can_reach_arrives(small):
    found, notes = resolved(small, conf(cc_ca_cong_setting_ccti_min="0 1"))
    assert found["reaction"]["per_sl"][0]["trigger_threshold"] == 2
    assert not any("no events" in note for note in notes)


@pytest.mark.parametrize(
    ("size", "credits", "said"), [("8", 8, 0), ("255", 255, 0), ("0x200", 8, 1), ("513", 9, 1)]
)
def test_both_dialects_of_the_packet_size(small, size, credits, said):
    found, notes = resolved(small, conf(cc_sw_cong_setting_packet_size=size))
    assert found["marking"]["packet_size"] == credits
    assert sum("taken as bytes" in note for note in notes) == said


def test_what_the_control_map_leaves_out_has_no_effect(small):
    found, notes = resolved(small, conf(cc_sw_cong_setting_control_map="0x0"))
    assert (found["marking"]["threshold"], found["marking"]["marking_rate"]) == (15, 1)
    assert sum("control_map is 0: no effect" in note for note in notes) == 3
    _, notes = resolved(small, conf(cc_sw_cong_setting_control_map="0x1f"))
    assert sum("credit starvation is not simulated" in note for note in notes) == 3
    _, notes = resolved(small, conf(cc_ca_cong_setting_control_map="0x0"))
    assert any("no adapter slows down" in note for note in notes)
    assert any("settings for SL 0 have no effect" in note for note in notes)


def test_the_victim_mask_is_told_by_the_network(small):
    for name in ("hosts", "all"):
        overrides = {"congestion.mechanism": "ib-cc", "congestion.marking.victim_mask": name}
        written = silvan.Scenario.load(small, overrides).opensm_options()
        mask = int(re.search(r"victim_mask 0x(\w+)", written)[1], 16)
        found, notes = resolved(small, CONF.format(mask=mask))
        assert found["marking"]["victim_mask"] == name
        assert not any("selects neither" in note for note in notes)
    found, notes = resolved(small, CONF.format(mask=2))
    assert found["marking"]["victim_mask"] == "hosts"
    assert any("selects neither the ports to hosts nor" in note for note in notes)


def test_what_is_written_is_read_back(small):
    overrides = {"congestion.mechanism": "ib-cc", "congestion.marking.threshold": 9}
    written = silvan.Scenario.load(small, overrides).opensm_options()
    (small.parent / "back.conf").write_text(written)
    scenario, _ = _opensm.load(small, small.parent / "back.conf", {})
    assert scenario.opensm_options() == written


@pytest.mark.skipif(shutil.which("opensm") is None, reason="opensm is not installed")
def test_opensm_itself_reads_the_options_as_we_do(tmp_path):
    (tmp_path / "given.conf").write_text(CONF.format(mask=0x1E))
    files = ("-F", "given.conf", "-c", "read.conf", "-f", "opensm.log")
    subprocess.run(["opensm", *files], cwd=tmp_path, capture_output=True, timeout=60, check=True)
    ours, theirs = _opensm.read(tmp_path / "given.conf"), _opensm.read(tmp_path / "read.conf")
    assert theirs.keys == ours.keys
    assert theirs.victim_mask == ours.victim_mask == 0x1E


def test_without_control_the_run_is_without(small):
    for text in ("", "congestion_control FALSE\n", conf(congestion_control=None)):
        found, notes = resolved(small, text)
        assert found["mechanism"] == "none"
        assert any("congestion_control is not TRUE" in note for note in notes)


def test_the_command_says_what_has_no_effect(small):
    path = small.parent / "opensm.conf"
    path.write_text(conf())
    given = ("--opensm-conf", path, "--set", "congestion.marking.threshold=7", "--set", "duration=1 ms")
    done = command("run", small, *given, "--set", "warmup=0 s", "--out", small.parent / "out")
    assert done.returncode == 0, done.stderr
    assert f"note: {path}: 1 options are not about congestion control: no effect" in done.stderr
    saved = tomllib.loads((small.parent / "out" / "scenario.toml").read_text())
    assert saved["congestion"]["marking"]["threshold"] == 7, "--set goes before the file"
    missing = command("run", small, "--opensm-conf", small.parent / "no.conf")
    assert missing.returncode == 1
    assert "no.conf: cannot be read" in missing.stderr


WRONG = [
    ("congestion_control", "maybe", "congestion_control is `maybe`; it must be TRUE or FALSE"),
    ("cc_sw_cong_setting_threshold", "16", "threshold is 16; it must be at most 15"),
    (
        "cc_sw_cong_setting_threshold",
        "0xg",
        "threshold is `0xg`; it must be a number, such as 15, 017 or 0x0f",
    ),
    ("cc_sw_cong_setting_marking_rate", "018", "marking_rate is `018`; it must be a number"),
    ("cc_sw_cong_setting_marking_rate", "70000", "marking_rate is 70000; it must be at most 65534"),
    ("cc_sw_cong_setting_marking_rate", "-1", "marking_rate is `-1`; it must be a number"),
    ("cc_sw_cong_setting_packet_size", "1e9", "packet_size is `1e9`; it must be a number"),
    ("cc_sw_cong_setting_packet_size", "16321", "packet_size is 16321; it must be at most 16320"),
    ("cc_sw_cong_setting_victim_mask", "0x" + "f" * 65, "victim_mask is `0x"),
    ("cc_ca_cong_setting_control_map", "0x10000", "control_map is 0x10000; it must be at most 65535"),
    ("cc_ca_cong_setting_ccti_timer", "16 1", "the service level is 16; it must be at most 15"),
    ("cc_ca_cong_setting_ccti_timer", "0", "ccti_timer is `0`; it must be a service level and a value"),
    ("cc_ca_cong_setting_ccti_timer", "0 0", "ccti_timer of SL 0 is 0, so its index would never fall"),
    ("cc_ca_cong_setting_ccti_increase", "0 x", "ccti_increase is `x`; it must be a number"),
    ("cc_ca_cong_setting_ccti_min", "0 4", "ccti_min of SL 0 is 4, but the last entry of cc_cct is 3"),
    ("cc_cct", "0:0,1", "entry 2 is `1`; it must be SHIFT:MULTIPLIER"),
    ("cc_cct", "4:0", "the shift of entry 1 is 4; it must be at most 3"),
    ("cc_cct", "0:16384", "the multiplier of entry 1 is 16384; it must be at most 16383"),
    ("cc_cct", ",".join(["0:1"] * 16_385), "has more than 16384 entries"),
    ("cc_cct", "0:" + "9" * 50, "the multiplier of entry 1 is `999"),
]


@pytest.mark.parametrize(("option", "value", "message"), WRONG)
def test_wrong_options_are_named(option, value, message):
    with pytest.raises(silvan.FabricError) as error:
        _opensm.parse(conf(**{option: value}), "opensm.conf")
    assert message in str(error.value)
    assert re.match(r"opensm\.conf:(\d+:)? ", str(error.value))


def test_what_is_no_text_is_refused(tmp_path):
    path = tmp_path / "opensm.conf"
    path.write_bytes(b"a 1\nb \xff\n")
    with pytest.raises(silvan.FabricError, match=r"opensm.conf:2: is not UTF-8 text"):
        _opensm.read(path)
    path.write_bytes(b"a\n" * (_opensm.MAX_BYTES // 2 + 1))
    with pytest.raises(silvan.FabricError, match="has more than 4194304 bytes"):
        _opensm.read(path)
    with pytest.raises(silvan.FabricError, match="has 262145 characters"):
        _opensm.parse("x" * (_opensm.MAX_LINE + 1), "f")


def test_bits_beyond_the_last_port_are_cut(small):
    for mask in ((1 << 256) - 1, 0x1FFFFFFFFE):
        found, notes = resolved(small, CONF.format(mask=mask))
        assert found["marking"]["victim_mask"] == "all"
        assert any("has bits of ports that no switch of this network has" in note for note in notes)
        assert not any("selects neither" in note for note in notes)
    overrides = {"congestion.mechanism": "ib-cc", "congestion.marking.victim_mask": "hosts"}
    written = silvan.Scenario.load(small, overrides).opensm_options()
    mask = int(re.search(r"victim_mask 0x(\w+)", written)[1], 16)
    found, _ = resolved(small, CONF.format(mask=mask | 1 << 200))
    assert found["marking"]["victim_mask"] == "hosts"
    found, _ = resolved(small, CONF.format(mask=1 << 200))
    assert found["marking"]["victim_mask"] == "none"


def test_a_mask_that_is_set_otherwise_is_not_discussed(small):
    found, notes = resolved(small, CONF.format(mask=2), {"congestion.marking.victim_mask": "all"})
    assert found["marking"]["victim_mask"] == "all"
    assert not any("victim_mask" in note for note in notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("enable TRUE\nthreshold 0xf\nmarking_rate 0xa\n", "options file of the plug-in ccmgr"),
        ("num_hosts 100\nccti_timer 150\n", "options file of the plug-in ccmgr"),
        ("mlnx_congestion_control 2\n", "congestion control of NVIDIA's subnet manager"),
        ("routing_engine updn\nppcc_algo_dir /opt/ppcc\n", "congestion control of NVIDIA's subnet manager"),
    ],
)
def test_options_of_other_programs_are_wrong_usage(small, text, message):
    path = small.parent / "other.conf"
    path.write_text(text)
    done = command("run", small, "--opensm-conf", path)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.replace("│", "").split())
    assert done.stdout == ""


def test_options_that_are_off_do_not_matter(small):
    _, notes = resolved(small, conf(mlnx_congestion_control="0", ppcc_algo_dir="(null)"))
    assert any("3 options are not about congestion control" in note for note in notes)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_options_with_a_byte_order_mark_are_read(small, encoding):
    path = small.parent / "marked.conf"
    text = CONF.format(mask=0).replace("\n", "\r\n")
    path.write_bytes(("\ufeff" + text if encoding == "utf-16-be" else text).encode(encoding))
    assert _opensm.read(path).keys == _opensm.parse(CONF.format(mask=0), "x").keys


#: Options of quality of service as OpenSM writes them, and tables that differ from its defaults.
QOS = """
qos {qos}
qos_max_vls 0
qos_high_limit -1
qos_vlarb_high (null)
qos_vlarb_low (null)
qos_sl2vl (null)
qos_ca_vlarb_high 0:1
qos_swe_high_limit {limit}
qos_swe_vlarb_high {high}
"""
LANES = {"lanes.count": "2"}


def arbitration(small, overrides=LANES, high="1:8,0:0x10", limit=255, qos="TRUE"):
    text = conf(congestion_control="FALSE") + QOS.format(qos=qos, high=high, limit=limit)
    (small.parent / "opensm.conf").write_text(text)
    scenario, notes = _opensm.load(small, small.parent / "opensm.conf", overrides)
    return tomllib.loads(scenario.to_toml())["lanes"].get("arbitration"), notes


def test_vl_arbitration_arrives_with_defaults_for_what_is_not_set(small):
    found, notes = arbitration(small)
    assert found == {"high": [[1, 8], [0, 16]], "low": [[0, 0], [1, 4]], "limit": "unlimited"}
    assert any("qos_ca_vlarb_high: hosts have the tables of switches: no effect" in note for note in notes)
    assert any("2 lanes: the VL arbitration of other lanes (2, 3, 4, " in note for note in notes)
    assert arbitration(small, limit=0)[0]["limit"] == "0 B"
    assert arbitration(small, limit="-1")[0]["limit"] == "0 B"
    assert arbitration(small, limit=3)[0]["limit"] == "12 KiB"


def test_vl_arbitration_needs_lanes_and_qos(small):
    found, notes = arbitration(small, overrides={})
    assert found is None
    assert any("one lane (lanes.count): the VL arbitration has no effect" in note for note in notes)
    found, notes = arbitration(small, qos="FALSE")
    assert found is None
    assert sum("qos is not TRUE: no effect" in note for note in notes) == 3


def test_invalid_vl_arbitration_names_its_line(small):
    for high, said in [
        ("1", r"opensm.conf:\d+: qos_swe_vlarb_high: entry 1 is `1`; it must be LANE:WEIGHT"),
        ("0:1,15:1", "entry 2: the lane is 15; it must be at most 14"),
        ("0:256", "entry 1: the weight is 256; it must be at most 255"),
        (",".join(["0:1"] * 65), "has more than 64 entries"),
    ]:
        with pytest.raises(silvan.FabricError, match=said):
            arbitration(small, high=high)
    with pytest.raises(silvan.FabricError, match="qos_swe_high_limit is 256; it must be at most 255"):
        arbitration(small, limit=256)


def test_written_vl_arbitration_is_read_back(small):
    tables = '{ high = [[1, 200]], low = [[0, 3], [1, 1]], limit = "8 KiB" }'
    given = LANES | {"congestion.mechanism": "ib-cc", "lanes.arbitration": tables}
    (small.parent / "opensm.conf").write_text(silvan.Scenario.load(small, given).opensm_options())
    scenario, notes = _opensm.load(small, small.parent / "opensm.conf", LANES)
    expected = {"high": [[1, 200]], "low": [[0, 3], [1, 1]], "limit": "8 KiB"}
    assert tomllib.loads(scenario.to_toml())["lanes"]["arbitration"] == expected
    (about_lanes,) = (note for note in notes if "qos" in note)
    assert "qos_max_vls: the scenario's lanes and their mapping are kept: no effect" in about_lanes
