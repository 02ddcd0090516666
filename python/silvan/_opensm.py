"""Converts the congestion control and the VL arbitration of OpenSM's configuration file to scenario keys.

The parser follows OpenSM (`osm_subnet.c`): one option per line; `#` starts a comment; numbers are decimal,
octal (leading 0) or hexadecimal (0x); if an option appears several times, the last line counts. IBA 1.2.1,
annex A10 and 7.6.9 of volume 1 define the options.
"""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from silvan import _files
from silvan._core import FabricError, Scenario

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

#: Maximum size of a file in bytes. The file that OpenSM writes has about 20 KB.
MAX_BYTES = 4 << 20
MAX_LINE = 256 << 10
LEVELS = 16
#: Minimum and maximum number of entries of a congestion control table.
FEWEST_ENTRIES, MOST_ENTRIES = 128, 16_384
#: Size of a credit in bytes.
CREDIT = 64
SWITCH, ADAPTER = "cc_sw_cong_setting_", "cc_ca_cong_setting_"
#: Options of switches, each with the number of its bit in the control map. If the bit is 0, the option has no
#: effect.
VALID = (
    ("victim_mask", 0),
    ("credit_mask", 1),
    ("threshold", 2),
    ("packet_size", 2),
    ("credit_starvation_threshold", 3),
    ("credit_starvation_return_delay", 3),
    ("marking_rate", 4),
)
#: Options of the communication between OpenSM and the nodes. They do not affect the settings.
ABOUT_TALKING = ("cc_key", "cc_max_outstanding_mads")
PER_LEVEL = ("ccti_timer", "ccti_increase", "trigger_threshold", "ccti_min")
#: Options of the plug-in ccmgr, which has its own file, and of NVIDIA's subnet manager.
CCMGR = (
    "enable", "num_hosts", "threshold", "marking_rate", "packet_size", "credit_mask", "port_control",
    "ca_control_map", "ccti_increase", "ccti_min", "ccti_timer", "trigger_threshold", "cct",
)  # fmt: skip
NVIDIA = ("mlnx_congestion_control", "ppcc_algo_dir")


#: Options of VL arbitration, with OpenSM's defaults.
ARBITRATION = {
    "vlarb_high": ",".join(f"{vl}:{4 if vl == 0 else 0}" for vl in range(15)),
    "vlarb_low": ",".join(f"{vl}:{0 if vl == 0 else 4}" for vl in range(15)),
    "high_limit": "0",
}
#: Options of service levels and of the number of lanes, which the scenario states.
ABOUT_LANES = ("sl2vl", "max_vls")
#: Options of quality of service begin with one of these. Those of links between switches precede those of all
#: ports.
SWITCHES, ADAPTERS, ALL_PORTS = "qos_swe_", "qos_ca_", "qos_"
QUALITY = {"qos"} | {
    group + name
    for group in (SWITCHES, ADAPTERS, ALL_PORTS, "qos_sw0_", "qos_rtr_")
    for name in (*ARBITRATION, *ABOUT_LANES)
}
#: Maximum number of entries of a table of VL arbitration, and the value of high_limit for no limit.
MOST_TURNS, UNLIMITED = 64, 255


class OtherOptionsError(FabricError):
    """The file contains options of a program other than OpenSM."""


@dataclass
class Options:
    """The settings in a configuration file."""

    #: Scenario keys and their values.
    keys: dict[str, str] = field(default_factory=dict)
    #: Notes about options without effect, and about the interpretation of values.
    notes: list[str] = field(default_factory=list)
    #: Victim mask of the switches, with one bit per port; `None` if the switches keep their default.
    victim_mask: int | None = None
    #: Tables of VL arbitration with high and low priority, as pairs of lane and weight, and the limit of high
    #: priority in units of 4 KiB; `None` if `qos` is not TRUE.
    arbitration: tuple[list[tuple[int, int]], list[tuple[int, int]], int] | None = None


@dataclass(frozen=True)
class _Value:
    text: str
    where: str

    def number(self, most: int) -> int:
        """Parse a number in C notation; raises `FabricError` if it is invalid or larger than `most`."""
        found = re.fullmatch(r"0[xX][0-9a-fA-F]{1,64}|[0-9]{1,20}", self.text)
        octal = found is not None and re.fullmatch(r"0[0-9]+", self.text) is not None
        if found is None or (octal and re.search("[89]", self.text)):
            raise FabricError(
                f"{self.where} is `{_short(self.text)}`; it must be a number, such as 15, 017 or 0x0f"
            )
        number = int(self.text, 8) if octal else int(self.text, 0)
        if number > most:
            raise FabricError(f"{self.where} is {_short(self.text)}; it must be at most {most}")
        return number


def _short(text: str) -> str:
    clipped = text if len(text) <= 60 else text[:60] + "..."
    return "".join(c if c.isprintable() else "?" for c in clipped)


def read(path: Path) -> Options:
    """Read the congestion control options from OpenSM's configuration file.

    Raises `FabricError` if the file cannot be read, is not text or is too long, if an option is invalid, or
    if the file belongs to another program.
    """
    try:
        with _files.plain(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise FabricError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise FabricError(f"{path}: has more than {MAX_BYTES} bytes, the limit of an option file")
    # Windows PowerShell writes UTF-16 with a byte-order mark.
    is_utf_16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode("utf-16" if is_utf_16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = 1 + data[: error.start].count(b"\n")
        raise FabricError(f"{path}:{line}: is not UTF-8 text; is this opensm.conf?") from None
    return parse(text, str(path))


def parse(text: str, origin: str) -> Options:
    """Parse options from text; `origin` is the name of the text in messages.

    Raises `FabricError` if an option is invalid, or if the text belongs to another program.
    """
    known = {"congestion_control", *ABOUT_TALKING, "cc_cct", f"{SWITCH}control_map"}
    known |= (
        {SWITCH + name for name, _ in VALID} | {f"{ADAPTER}port_control", f"{ADAPTER}control_map"} | QUALITY
    )
    single: dict[str, _Value] = {}
    by_level: dict[str, dict[int, _Value]] = {name: {} for name in PER_LEVEL}
    others: list[str] = []
    options = Options()
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > MAX_LINE:
            raise FabricError(f"{origin}:{number}: has {len(line)} characters; a line has at most {MAX_LINE}")
        key, _, value = line.split("#", 1)[0].strip().partition(" ")
        value = value.strip()
        where = f"{origin}:{number}: {key}"
        name = key.removeprefix(ADAPTER)
        if name != key and name in PER_LEVEL:
            level, _, rest = value.partition(" ")
            sl = _Value(level, f"{where}: the service level").number(LEVELS - 1)
            if not rest.strip():
                raise FabricError(f"{where} is `{_short(value)}`; it must be a service level and a value")
            by_level[name][sl] = _Value(rest.strip(), where)
        elif key in known:
            single[key] = _Value(value, where)
        elif key.startswith("cc_"):
            options.notes.append(f"{where} is not an option of OpenSM 3.3: no effect")
        elif key in NVIDIA and value not in ("0", "(null)", ""):
            raise OtherOptionsError(
                f"{where} {_short(value)}: this is congestion control of NVIDIA's subnet manager, whose "
                "algorithm the file does not contain; give the options of OpenSM 3.3 (congestion_control "
                "TRUE, cc_sw_cong_setting_threshold 15, ...), or set the mechanism in the scenario"
            )
        elif key:
            others.append(key)
    if "congestion_control" not in single and len(set(others) & set(CCMGR)) >= 2:
        raise OtherOptionsError(
            f"{origin}: this is the options file of the plug-in ccmgr ({', '.join(others[:3])}, ...), which "
            "is not read; write the settings as options of OpenSM 3.3: congestion_control TRUE, "
            "cc_sw_cong_setting_threshold, cc_sw_cong_setting_marking_rate, ..."
        )
    if others:
        options.notes.append(f"{origin}: {len(others)} options are not about congestion control: no effect")
    _arbitration(options, {key: value for key, value in single.items() if key in QUALITY}, origin)
    if not _is_true(single.get("congestion_control")):
        options.keys["congestion.mechanism"] = "none"
        options.notes.append(
            f"{origin}: congestion_control is not TRUE, so OpenSM sets nothing: no congestion control"
        )
        return options
    options.keys["congestion.mechanism"] = "ib-cc"
    _switches(options, single, origin)
    _adapters(options, single, by_level, origin)
    return options


def _is_true(value: _Value | None) -> bool:
    if value is None or value.text.upper() == "FALSE":
        return False
    if value.text.upper() == "TRUE":
        return True
    raise FabricError(f"{value.where} is `{_short(value.text)}`; it must be TRUE or FALSE")


def _arbitration(options: Options, given: dict[str, _Value], origin: str) -> None:
    if not _is_true(given.get("qos")):
        unused = [
            value for key, value in given.items() if key.endswith(tuple(ARBITRATION)) and _is_set(value)
        ]
        options.notes.extend(f"{value.where}: qos is not TRUE: no effect" for value in unused)
        return
    used = {}
    for name, default in ARBITRATION.items():
        values = [given[key] for key in (SWITCHES + name, ALL_PORTS + name) if key in given]
        of_default = _Value(default, f"{origin}: the default of {ALL_PORTS}{name}")
        used[name] = next(filter(_is_set, values), of_default)
        of_hosts = given.get(ADAPTERS + name)
        if of_hosts is not None and _is_set(of_hosts) and of_hosts.text != used[name].text:
            options.notes.append(f"{of_hosts.where}: hosts have the tables of switches: no effect")
    for key, value in given.items():
        if key.endswith(ABOUT_LANES) and _is_set(value) and value.text != "0":
            options.notes.append(f"{value.where}: the scenario's lanes and their mapping are kept: no effect")
    high, low = (_turns(used[name]) for name in ("vlarb_high", "vlarb_low"))
    options.arbitration = (high, low, used["high_limit"].number(UNLIMITED))


def _is_set(value: _Value) -> bool:
    """Return whether a value does not stand for OpenSM's default."""
    return value.text not in ("", "(null)", "-1")


def _turns(value: _Value) -> list[tuple[int, int]]:
    """Return the entries of a table of VL arbitration: lanes and weights."""
    found = []
    for number, entry in enumerate(value.text.split(","), 1):
        lane, colon, weight = entry.strip().partition(":")
        where = f"{value.where}: entry {number}"
        if not colon:
            raise FabricError(f"{where} is `{_short(entry)}`; it must be LANE:WEIGHT")
        if number > MOST_TURNS:
            raise FabricError(f"{value.where} has more than {MOST_TURNS} entries")
        vl = _Value(lane.strip(), f"{where}: the lane").number(14)
        found.append((vl, _Value(weight.strip(), f"{where}: the weight").number(255)))
    return found


def _lanes(options: Options, notes: list[str], lanes: int) -> dict[str, str]:
    """Return the key with the VL arbitration of a scenario with a number of lanes."""
    if options.arbitration is None:
        return {}
    if lanes == 1:
        notes.append("the scenario has one lane (lanes.count): the VL arbitration has no effect")
        return {}
    high, low, units = options.arbitration
    others = sorted({vl for vl, weight in high + low if vl >= lanes and weight})
    if others:
        listed = ", ".join(map(str, others))
        notes.append(
            f"the scenario has {lanes} lanes: the VL arbitration of other lanes ({listed}) has no effect"
        )
    limit = "unlimited" if units == UNLIMITED else f"{4 * units} KiB"
    tables = [[[vl, weight] for vl, weight in table if vl < lanes] for table in (high, low)]
    return {"lanes.arbitration": f'{{ high = {tables[0]}, low = {tables[1]}, limit = "{limit}" }}'}


def _switches(options: Options, single: dict[str, _Value], origin: str) -> None:
    given = single.get(f"{SWITCH}control_map")
    control_map = 0 if given is None else given.number(0xFFFF_FFFF)
    keys = {
        "threshold": "congestion.marking.threshold",
        "packet_size": "congestion.marking.packet_size",
        "marking_rate": "congestion.marking.marking_rate",
    }
    most = {
        "threshold": 15,
        "marking_rate": 65_534,
        "packet_size": 255 * CREDIT,
        "victim_mask": (1 << 256) - 1,
    }
    for name, bit in VALID:
        value = single.get(SWITCH + name)
        if not control_map >> bit & 1:
            if value is not None and value.text.strip("0x:"):
                options.notes.append(f"{value.where}: bit {bit} of {SWITCH}control_map is 0: no effect")
            continue
        if name.startswith("credit_"):
            options.notes.append(f"{origin}: {SWITCH}{name}: credit starvation is not simulated: no effect")
            continue
        number = 0 if value is None else value.number(most[name])
        if name == "victim_mask":
            options.victim_mask = number
            continue
        if name == "packet_size" and number > 255 and value is not None:
            # The option of OpenSM has eight bits. The option of ccmgr with the same name is in bytes.
            credits = -(-number // CREDIT)
            options.notes.append(
                f"{value.where} {value.text} is more than 255 credits, so it is taken as bytes, "
                f"as in the ccmgr plug-in: {credits} credits "
                f"(OpenSM 3.3 itself keeps eight bits, {number & 255})"
            )
            number = credits
        options.keys[keys[name]] = str(number)


def _adapters(
    options: Options, single: dict[str, _Value], by_level: dict[str, dict[int, _Value]], origin: str
) -> None:
    port_control = single.get(f"{ADAPTER}port_control")
    by_sl = port_control is not None and port_control.number(0xFFFF) & 1 == 1
    options.keys["congestion.reaction.level"] = "sl" if by_sl else "qp"
    given = single.get(f"{ADAPTER}control_map")
    control_map = 0 if given is None else given.number(0xFFFF)
    entries = _table(single.get("cc_cct"))
    if entries is None:
        options.notes.append(f"{origin}: cc_cct is missing: the scenario's table is kept")
    else:
        padded = entries + entries[-1:] * (FEWEST_ENTRIES - len(entries))
        options.keys["congestion.reaction.table"] = f'{{ kind = "iba", entries = {padded} }}'
        options.keys["congestion.reaction.ccti_limit"] = str(len(entries) - 1)
    levels = []
    for sl in range(LEVELS):
        value = {name: by_level[name].get(sl) for name in PER_LEVEL}
        if not control_map >> sl & 1:
            levels.append(f"{{ sl = {sl}, ccti_increase = 0, ccti_min = 0 }}")
            if any(v is not None and v.text.strip("0x") for v in value.values()):
                options.notes.append(
                    f"{origin}: bit {sl} of {ADAPTER}control_map is 0: settings for SL {sl} have no effect"
                )
            continue
        timer, increase, minimum = (
            0 if v is None else v.number(65_535)
            for v in (value["ccti_timer"], value["ccti_increase"], value["ccti_min"])
        )
        if timer == 0:
            at = value["ccti_timer"]
            where = f"{origin}: {ADAPTER}ccti_timer" if at is None else at.where
            raise FabricError(f"{where} of SL {sl} is 0, so its index would never fall; give it 1 or more")
        if entries is not None and minimum >= len(entries):
            raise FabricError(
                f"{origin}: {ADAPTER}ccti_min of SL {sl} is {minimum}, "
                f"but the last entry of cc_cct is {len(entries) - 1}"
            )
        level = f"sl = {sl}, ccti_timer = {timer}, ccti_increase = {increase}, ccti_min = {minimum}"
        trigger = value["trigger_threshold"]
        threshold = 0 if trigger is None else trigger.number(255)
        limit = len(entries) - 1 if entries else FEWEST_ENTRIES - 1
        if trigger is not None and threshold and not minimum < threshold <= limit:
            options.notes.append(
                f"{trigger.where} of SL {sl} is {threshold}, "
                f"but indices rise from {minimum} to {limit}: no events"
            )
        elif threshold:
            level += f", trigger_threshold = {threshold}"
        levels.append(f"{{ {level} }}")
    if control_map == 0:
        options.notes.append(f"{origin}: {ADAPTER}control_map is 0: no adapter slows down")
    options.keys["congestion.reaction.per_sl"] = f"[{', '.join(levels)}]"


def _table(value: _Value | None) -> list[int] | None:
    """Return the entries of a congestion control table in the encoding of IBA; None if there is no table."""
    if value is None or value.text in ("", "(null)"):
        return None
    entries = []
    for number, entry in enumerate(value.text.split(","), 1):
        shift, colon, multiplier = entry.strip().partition(":")
        if not colon:
            raise FabricError(
                f"{value.where}: entry {number} is `{_short(entry)}`; it must be SHIFT:MULTIPLIER"
            )
        if number > MOST_ENTRIES:
            raise FabricError(f"{value.where} has more than {MOST_ENTRIES} entries")
        high = _Value(shift.strip(), f"{value.where}: the shift of entry {number}").number(3)
        low = _Value(multiplier.strip(), f"{value.where}: the multiplier of entry {number}").number(0x3FFF)
        entries.append(high << 14 | low)
    return entries


#: Loads a scenario with overrides.
Load = Callable[[dict[str, str]], Scenario]


def load(scenario: Path | Load, conf: Path, overrides: dict[str, str]) -> tuple[Scenario, list[str]]:
    """Load a scenario with the options of a configuration file; `overrides` take precedence.

    Returns the scenario and notes about the options. Raises `FabricError` as :func:`read` does, and
    `ScenarioError` if the scenario is invalid.
    """
    path = scenario
    load = path if callable(path) else lambda given: Scenario.load(path, given)
    options = read(conf)
    notes = list(options.notes)
    if options.arbitration is not None and "lanes.arbitration" not in overrides:
        lanes = tomllib.loads(load(overrides).to_toml()).get("lanes", {}).get("count", 1)
        options.keys |= _lanes(options, notes, lanes)
    if options.keys["congestion.mechanism"] == "none":
        # Without a mechanism, there is no victim mask.
        return load(options.keys | overrides), notes
    mask = "congestion.marking.victim_mask"
    if options.victim_mask is not None and mask not in overrides:
        options.keys[mask] = _victims(lambda given: load(given | overrides), options, notes, mask)
    return load(options.keys | overrides), notes


def _victims(load: Load, options: Options, notes: list[str], key: str) -> str:
    """Return `hosts`, `all` or `none`: the ports of the scenario's network that the victim mask selects.

    For another selection, return `hosts` and add a note.
    """
    given = options.victim_mask or 0
    # Bits of ports that no switch has, and of the management port 0, have no effect.
    selected = {name: _mask(load(options.keys | {key: name})) for name in ("hosts", "all")}
    cut = given & selected["all"]
    if cut != given:
        notes.append(f"{SWITCH}victim_mask has bits of ports that no switch of this network has: no effect")
    if cut == 0:
        return "none"
    if cut in selected.values():
        return next(name for name, mask in selected.items() if mask == cut)
    notes.append(
        f"{SWITCH}victim_mask selects neither the ports to hosts nor all ports of this network: "
        "the ports to hosts are used"
    )
    return "hosts"


def _mask(scenario: Scenario) -> int:
    """Return the victim mask of a scenario, as in its OpenSM options."""
    written = scenario.opensm_options()
    found = re.search(rf"^{SWITCH}victim_mask 0x([0-9a-f]+)$", written, re.MULTILINE)
    return 0 if found is None else int(found[1], 16)
