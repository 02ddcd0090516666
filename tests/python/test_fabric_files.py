"""Tests the readers of fabric files other than those of ibnetdiscover: contents, and errors."""

import gzip
import re
import shutil

import pytest

import silvan
from conftest import ROOT, command

RING = ROOT / "tests" / "data" / "lanes" / "ring-6" / "dfsssp"
LINK = re.compile(
    r"^\{ (\S+) Ports:(\w+) .*? NodeGUID:(\w+) PortGUID:(\w+) .*?\{(.*?)\} LID:(\w+) PN:(\w+) \} "
    r"\{ (\S+) Ports:(\w+) .*? NodeGUID:(\w+) PortGUID:(\w+) .*?\{(.*?)\} LID:(\w+) PN:(\w+) \}",
    re.MULTILINE,
)


def text_of(name):
    return gzip.decompress((RING / f"{name}.gz").read_bytes()).decode()


def sections(speed="4", extended="0"):
    """Convert the list of links of the ring to the format of ibdiagnet."""
    nodes, ports, links = {}, {}, []
    for found in LINK.finditer(text_of("opensm-subnet.lst")):
        ends = [found.groups()[:7], found.groups()[7:]]
        for kind, count, node, port_guid, name, lid, port in ends:
            is_switch = kind.startswith("SW")
            nodes[node] = f'"{name}, of a ring",{int(count, 16)},{1 + is_switch},0x{node}'
            at = 0 if is_switch else int(port, 16)
            ports[node, at] = f"0x{node},0x{port_guid},{at},{int(lid, 16)},0,0,N/A"
            own = "N/A" if is_switch else str(int(lid, 16))
            ports[node, int(port, 16)] = f"0x{node},0x{port_guid},{int(port, 16)},{own},2,{speed},{extended}"
        (_, _, a, *_, pa), (_, _, b, *_, pb) = ends
        links.append(f" 0x{a} , {int(pa, 16)} , 0x{b} , {int(pb, 16)}")
    parts = {
        "NODES": ["NodeDesc,NumPorts,NodeType,NodeGUID", *nodes.values()],
        "PORTS": [
            "NodeGuid,PortGuid,PortNum,LID,LinkWidthActv,LinkSpeedActv,LinkSpeedExtActv", *ports.values()
        ],
        "LINKS": ["NodeGuid1,PortNum1,NodeGuid2,PortNum2", *links],
        "AR_INFO": ["NodeGUID,e,is_arn_sup", *(f"0x{node},1,0" for node in nodes if node[7] == "2")],
        "PM_INFO": ["NodeGUID,PortNumber,PortXmitData", "0x1,1,0x22"],
    }  # fmt: skip
    head = "# ibdiagnet fabric db file\nINDEX_TABLE\n"
    return head + "".join(f"\nSTART_{n}\n" + "\n".join(rows) + f"\nEND_{n}\n" for n, rows in parts.items())


def far():
    """Convert the ring's tables to adaptive tables in which the entries of two hosts are adaptive."""
    text = ""
    for line in text_of("opensm.fdbs").splitlines():
        head = re.fullmatch(r"dump_ucast_routes: Switch (0x\w+)", line)
        row = re.match(r"0x(\w+) : (\d+)", line)
        if head:
            text += f"\nSwitch {head[1]}\nGroups Definition:\nGroup SubGroup WHBF Ports\n-----\n"
            text += "1 0 0 2,3\n2 0 0\nLFT Definition:\nLID StaticPort State Group\n-----\n"
        elif row:
            lid = int(row[1], 16)
            text += f"{lid} {int(row[2])} " + ("Free 1\n" if lid in (1, 4) else "Static\n")
    return text


def same(report, other):
    def fabric(of):
        told = ("used", "ignored", "topology", "adaptive_groups")
        return str({k: v for k, v in of.items() if k not in told}).replace(", of a ring", "")

    return fabric(report) == fabric(other)


@pytest.fixture
def ring():
    return silvan.fabric.check([RING / "ibnetdiscover.topo.gz", RING / "opensm-lfts.dump.gz"])


@pytest.mark.parametrize("codes", [("4", "0"), ("4", "N/A")])
def test_sections_are_read(tmp_path, ring, codes):
    (tmp_path / "ibdiagnet2.db_csv").write_text(sections(*codes))
    (tmp_path / "opensm.fdbs").write_text(text_of("opensm.fdbs"))
    report = silvan.fabric.check(tmp_path)
    assert same(report, ring)
    note = report["used"][0]["note"]
    assert "sections NODES, PORTS, LINKS, AR_INFO; skipped PM_INFO; adaptive routing enabled on 6" in note


def test_a_rate_beyond_qdr_is_read_from_its_codes(tmp_path):
    for speed, extended in (("4", "2"), ("512", "N/A")):
        path = tmp_path / "ibdiagnet2.db_csv"
        path.write_text(sections(speed, extended))
        wiring = silvan.fabric.route(path, "up-down").network
        assert " 4xEDR" in wiring
        assert "QDR" not in wiring


def test_columns_may_be_few_and_padded(tmp_path, ring):
    """Uses the format of OpenSM's database dump, which lacks numbers of ports, widths and speeds."""
    text = re.sub(r"(of a ring\"),\d+,", r"\1,", sections()).replace("NumPorts,", "")
    text = re.sub(r",2,4,0$", "", text, flags=re.MULTILINE).replace(
        ",LinkWidthActv,LinkSpeedActv,LinkSpeedExtActv", ""
    )
    (tmp_path / "opensm-smdb.dump").write_text(text)
    files = [tmp_path / "opensm-smdb.dump", RING / "opensm.fdbs.gz"]
    assert same(silvan.fabric.check(files, default_rate="32 Gbit/s"), ring)
    with pytest.raises(silvan.FabricError, match="states no width and speed"):
        silvan.fabric.check(files)


def test_adaptive_tables_are_used_as_static_ones(tmp_path, ring):
    (tmp_path / "ibdiagnet2.far").write_text(far())
    report = silvan.fabric.check([RING / "ibnetdiscover.topo.gz", tmp_path])
    assert same(report, ring)
    assert report["adaptive_groups"] == 12
    assert report["used"][1]["note"] == "static ports; 12 groups of ports are stored, used by 12 entries"


def test_links_under_headings_are_read_too(tmp_path, ring):
    """Uses the format that `iblinkinfo` prints without `-l`."""
    heads, text = set(), ""
    for line in text_of("iblinkinfo.txt").splitlines():
        guid, name, rest = re.fullmatch(r'(0x\w+) " *(\S+)" (.*)', line).groups()
        if name not in heads:
            heads.add(name)
            text += f"Switch: {guid} {name}:\n" if name.startswith("sw") else f"CA: {name}:\n"
        own = "" if name.startswith("sw") else f"{guid} "
        text += f"      {own}{re.sub(r'==>  0x[0-9a-f]+', '==>', rest)}\n"
    (tmp_path / "links.txt").write_text(text)
    assert same(silvan.fabric.check([tmp_path / "links.txt", RING / "opensm.fdbs.gz"]), ring)


def test_a_folder_says_what_it_did_not_use(tmp_path):
    for name in ("ibnetdiscover.topo", "opensm-subnet.lst", "opensm.fdbs", "opensm-lfts.dump"):
        (tmp_path / name).write_text(text_of(name))
    (tmp_path / "opensm.conf").write_text("routing_engine dfsssp\ncongestion_control TRUE\n")
    (tmp_path / "x.plft").write_text("PLFT\n")
    (tmp_path / "x.vl2vl").write_text("VL\n")
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\xff\xfe")
    (tmp_path / "more").mkdir()
    report = silvan.fabric.check(tmp_path)
    said = {file["file"].rsplit("/", 1)[1]: file["note"] for file in report["ignored"]}
    assert said["opensm-subnet.lst"].startswith("the wiring was read from ")
    assert said["opensm.fdbs"].startswith("the tables were read from ")
    assert "`silvan run --opensm-conf` reads it" in said["opensm.conf"]
    assert "private LFT" in said["x.plft"]
    assert "VL-to-VL" in said["x.vl2vl"]
    assert "is not UTF-8 text" in said["photo.png"]
    assert len(report["used"]) == 2
    assert len(said) == 6


LST, FDBS, INFO, MAPS = "opensm-subnet.lst", "opensm.fdbs", "iblinkinfo.txt", "opensm-sl2vl.dump"
#: Each case is a file, a text with its replacement (used once), and a part of the expected message.
WRONG = [
    (LST, "{ SW ", "{ XX ", "the type of node is not SW, CA or RT in"),
    (LST, "Ports:24", "Ports:zz", "the port is `zz`; it must be from 1 to 254"),
    (LST, "Ports:24", "Ports:FF", "the port is `FF`; it must be from 1 to 254"),
    (LST, "Ports:24 ", "", "Ports or NodeGUID is missing in"),
    (LST, "NodeGUID:02", "NodeGUID:xx", "Ports or NodeGUID is missing in"),
    (LST, "PortGUID:02", "PortGUID:yy", "PortGUID is missing in"),
    (LST, "LID:0002", "LID:C000", "the LID is `C000`; it must be a number from 0 to 49151"),
    (LST, "LID:0002", "LID:99999", "the LID is `99999`; it must be a number from 0 to 49151"),
    (LST, "PN:01", "PN:00", "the port is `00`; it must be from 1 to 254"),
    (LST, "PN:01", "PN:25", "port 37 of `sw-0` does not exist; it has ports 1 to 36"),
    (LST, "PN:01", "PX:01", "PN is missing in"),
    (LST, "PN:01 }", "PN:01", "an end of a link must come next instead of"),
    (LST, "{sw-0} LID", "{sw-0 LID", "an end of a link must come next instead of"),
    (LST, "{sw-0}", "{sw-9}", "the node is `sw-0` here, but `sw-9` in line 1"),
    (LST, "PN:02", "PN:03", "both must agree"),
    (LST, "PHY=4x", "PHY=5x", "PHY=`5x` and SPD=`10` are not a valid width and lane speed"),
    (LST, "SPD=10", "SPD=11", "PHY=`4x` and SPD=`11` are not a valid width and lane speed"),
    (LST, "SPD=10", "", "the link's PHY, LOG or SPD is missing"),
    (FDBS, "Switch 0x", "Switch x", "the switch GUID is `x"),
    (FDBS, "Switch 0x02000002000000", "Switch 0x03000002000000", "is not in the topology"),
    (FDBS, "0x0001 : ", "0xC000 : ", "the LID is `0xC000`; this table has LIDs from 0x0001 to 0xbfff"),
    (FDBS, "0x0001 : 001", "0x0001 : 037", "has ports 0 to 36"),
    (FDBS, "0x0001 : 001", "0x0001 : -01", "the port is `-01`"),
    (FDBS, "0x0001 : 001", "0x0002 : 001", "LID 0x0002 appears twice in the table of"),
    (FDBS, "0x0001 : 001  : 01   : yes", "0x0001 001", "is not an entry of a table; the form is"),
    (INFO, "1[  ] ==(", "1[  ] ==", "is not a line of iblinkinfo"),
    (INFO, "1[  ] ==(", "999[  ] ==(", "the port is `999`; it must be from 1 to 254"),
    (INFO, "10.0 Gbps", "11.0 Gbps", "the width and speed are `4X"),
    (INFO, "4X          10.0", "9X          10.0", "the width and speed are `9X"),
    (INFO, "      8    1[  ] ==(", "  49152    1[  ] ==(", "the LID is `49152`"),
    (INFO, "      8    1[  ] ==(", "   4000    1[  ] ==(", "both must agree"),
    (MAPS, "0   1   : 0  1", "0   1   : 0  16", "does not contain the lanes of 16 service levels"),
    (MAPS, "0   1   : 0  1 ", "0   1   : 0  ", "does not contain the lanes of 16 service levels"),
    (MAPS, "0   1   :", "0   37  :", 'the ports are `0` and `37`; switch "sw-0" has ports 0 to 36'),
    (MAPS, "1   1   : 0  1", "0   1   : 0  2", "already have another table; only one table is allowed"),
    (MAPS, "Switch 0x", "Switch 0xq", "the GUID is `0xq"),
    ("path-sl.txt", "1 4 0", "1 4 16", "is not a path; the form is"),
    ("path-sl.txt", "1 4 0", "1 4 0 0", "is not a path; the form is"),
    ("path-sl.txt", "1 4 0", "65535 4 0", "`65535` is neither a LID from 1 to 49151 nor a GUID"),
    ("path-sl.txt", "1 4 0", "1 0 0", "`0` is neither a LID from 1 to 49151 nor a GUID"),
    ("path-sl.txt", "1 4 0", "1 4 0\n1 4 5", "has SL 5 here, but 0 before; only one SL is allowed"),
    ("path-sl.txt", "1 4 0", "1 4 \x01", "control character U+0001"),
    ("db_csv", "END_NODES\n", "", "section NODES of line 4 has no END_NODES"),
    ("db_csv", "END_PM_INFO\n", "", "section PM_INFO has no END_PM_INFO; the file is truncated"),
    ("db_csv", "END_NODES\n", "END_NODES\nEND_NODES\n", "`END_NODES` ends a section that was not started"),
    ("db_csv", "START_LINKS", "START_LINX", "`END_LINKS` ends a section that was not started"),
    ("db_csv", "NumPorts,NodeType", "NumPorts,NodeKind", "section NODES has no column NodeType"),
    ("db_csv", ",36,2,", ",0,2,", "the port is `0`; it must be from 1 to 254"),
    ("db_csv", 'of a ring"', "of a ring", "a double quote is not closed"),
    ("db_csv", "NodeGuid,PortGuid,PortNum", "NodeGuid,PortGuid,Port", "section PORTS has no column PortNum"),
    ("db_csv", ",1,1,2,4,0", ",1,60000,2,4,0", "the LID is `60000`; it must be a number from 0 to 49151"),
    ("db_csv", ",1,1,2,4,0", ",300,1,2,4,0", "PortNum is 300; it must be from 0 to 254"),
    ("db_csv", " 0x0200", " 0x0900", "which is not in section NODES"),
    ("db_csv", "START_PM_INFO\n", "START_PM_INFO\n" + "," * 2000 + "\n", "more than 1024 columns"),
    ("far", "Switch 0x", "Switch y", "names no switch; the form is"),
    ("far", "1 0 0 2,3", "1 0", "is not a group; the form is"),
    ("far", "1 0 0 2,3", "1 0 0 2,300", "the port is `300`; it must be from 1 to 254"),
    ("far", "1 0 0 2,3", "1 0 0 " + "2," * 300, "the group has more than 254 ports"),
    ("far", " Static\n", " Statik\n", "is not a route; the form is `LID PORT STATE GROUP`"),
    ("far", "1 1 Free", "1 99 Free", "has ports 0 to 36"),
    ("far", "1 1 Free", "1 0 Free", "to port 0, the switch itself, but it is that of host"),
]


@pytest.mark.parametrize(("name", "old", "new", "message"), WRONG)
def test_wrong_files_are_named(tmp_path, name, old, new, message):
    made = {"db_csv": sections, "far": far}
    text = made[name]() if name in made else text_of(name)
    assert old in text
    path = tmp_path / name
    path.write_text(text.replace(old, new, 1))
    wiring, tables = name in (LST, INFO, "db_csv"), name in (FDBS, "far")
    rest = [FDBS] if wiring else ["ibnetdiscover.topo"] if tables else ["ibnetdiscover.topo", FDBS]
    with pytest.raises(silvan.FabricError) as error:
        silvan.fabric.check([path, *(RING / f"{other}.gz" for other in rest)])
    assert message in str(error.value)
    assert str(error.value).startswith(f"{path}:")


def test_what_is_missing_is_asked_for(tmp_path):
    with pytest.raises(silvan.FabricError, match="there is no wiring: pass the output of `ibnetdiscover`"):
        silvan.fabric.check(tmp_path)
    with pytest.raises(silvan.FabricError, match=r"there are no forwarding tables: pass opensm-lfts\.dump"):
        silvan.fabric.check(RING / "opensm-subnet.lst.gz")
    odd = tmp_path / "odd"
    odd.write_text("hello\n")
    with pytest.raises(silvan.FabricError, match="is not in a known format of fabric files"):
        silvan.fabric.check([odd, RING / "opensm-subnet.lst.gz"])
    done = command("fabric", "check", tmp_path / "none")
    assert done.returncode == 1
    assert "none: no such file or folder" in done.stderr


def test_files_of_different_fabrics_do_not_fit():
    other = ROOT / "tests" / "data" / "fabrics" / "sw2-h7" / "lash"
    wiring = [other / "ibnetdiscover.topo", other / "opensm-lfts.dump"]
    with pytest.raises(silvan.FabricError, match="no table belongs to a switch of the topology"):
        silvan.fabric.check([*wiring, RING / f"{MAPS}.gz"])


def test_the_fabrics_that_come_with_silvan_can_be_copied(tmp_path):
    folders = silvan.fabric.examples(tmp_path / "fabrics")
    found = {folder.name: silvan.fabric.check(folder)["pairs_routed"] for folder in folders}
    assert found == {"sw2-h7": 7 * 6, "4ary3tree-h64": 64 * 63, "ft2-36p-h648": 648 * 647}
    assert all(len(list(folder.iterdir())) == 2 for folder in folders)
    before = (folders[0] / "ibnetdiscover.topo").read_bytes()
    shutil.rmtree(folders[2])
    with pytest.raises(FileExistsError, match="already exists"):
        silvan.fabric.examples(tmp_path / "fabrics")
    assert (folders[0] / "ibnetdiscover.topo").read_bytes() == before
    assert not folders[2].exists()


@pytest.mark.parametrize("fabric", ["4ary3tree-h64/minhop", "ft2-36p-h648/ftree"])
def test_packets_of_real_fabrics_are_hashed_onto_all_minimal_routes(fabric):
    """With one route per flow, hashes collide; sprayed packets use all routes."""
    folder = ROOT / "tests" / "data" / "fabrics" / fabric
    text = f"""
duration = "100 us"
topology = {{ kind = "file", file = "{folder / "ibnetdiscover.topo.gz"}" }}
routing = {{ kind = "table", file = "{folder / "opensm-lfts.dump.gz"}" }}
traffic = [{{ pattern = {{ kind = "permutation" }} }}]
"""
    ends = {"one": "[ecmp]", "sprayed": '[ecmp]\nspraying = "oblivious"'}
    found = {name: silvan.run(silvan.Scenario.from_toml(text + end)).summary for name, end in ends.items()}
    assert "reordering" not in found["one"]
    assert found["sprayed"]["reordering"]["late_packets"] > 1000
    assert found["sprayed"]["throughput_gbit_s"] > 1.3 * found["one"]["throughput_gbit_s"]


def test_check_states_the_lids_per_host():
    folder = ROOT / "tests" / "data" / "lmc"
    shown = command("fabric", "check", folder).stdout
    assert re.search(r"LIDs per host +up to 4; each pair has 4 routes and flows", shown), shown
    assert re.search(r"pairs routed +42\n", re.sub(r" +\n", "\n", shown)), shown
    one = command("fabric", "check", ROOT / "tests" / "data" / "fabrics" / "sw2-h7" / "updn").stdout
    assert "LIDs per host" not in one


def test_collide_uses_base_lids():
    found = silvan.fabric.collide(ROOT / "tests" / "data" / "lmc", pattern="all-to-all")
    used = {link["link"] for link in found["now"]["links"] if link["link"].startswith("swA:")}
    assert any(":8->" in link for link in used), used
    assert not any(":7->" in link for link in used), used
