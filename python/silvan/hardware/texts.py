"""Writes counters as text: `perfquery -x`, SONiC's counter database, Prometheus."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from silvan import _files
from silvan._terminal import clean
from silvan.hardware.names import COUNTERS, GAUGES

if TYPE_CHECKING:
    from silvan.hardware.ports import Port, Snapshot
    from silvan.results import Result

#: Column at which the values of perfquery begin, after a name, a colon and dots.
DOTS_UNTIL = 33
#: Object identifiers of ports and queues in SONiC's counter database begin with these numbers.
PORT_OID, QUEUE_OID = 0x1000000000000, 0x15000000000000
#: Priorities of priority flow control.
PRIORITIES = 8


def addresses(run: Result) -> dict[str, tuple[int, int]]:
    """Return the LID and the port number of the sender of each channel, as the fabric of a run has them.

    Without a file that states LIDs, they are those of `silvan fabric route`. Raises `FabricError` or
    `ScenarioError` if a file of the scenario has changed or is missing.
    """
    from silvan.fabric.collisions import routes

    with tempfile.TemporaryDirectory(prefix="silvan-") as folder:
        path = Path(folder) / "scenario.toml"
        _files.write_text(path, run.scenario_toml)
        fabric = routes.wiring_of_scenario(path)
    return {link: (end.lid, end.number) for link, end in zip(fabric.links, fabric.senders, strict=True)}


def perfquery(shot: Snapshot, address: dict[str, tuple[int, int]]) -> str:
    """Return the extended counters of each port, in the order of LIDs and ports."""
    known = [one for one in COUNTERS if one.infiniband and one.column in shot.values]
    lines: list[str] = []
    for at in sorted(range(len(shot.ports)), key=lambda at: address[shot.ports[at].link]):
        lid, port = address[shot.ports[at].link]
        lines.append(f"# Port extended counters: Lid {lid} port {port} (CapMask: 0x1E00)")
        values = [("PortSelect", str(port)), ("CounterSelect", "0x0000")]
        values += [(one.infiniband, str(shot.values[one.column][at])) for one in known]
        lines += [f"{name}:{'.' * (DOTS_UNTIL - len(name) - 1)}{value}" for name, value in values]
    return "\n".join([*lines, ""])


def sonic(shot: Snapshot) -> str:
    """Return the ports of switches as JSON with the keys of SONiC's counter database.

    Values are strings, as in Redis. The ports of all switches are in one database, so their names contain the
    name of the switch.
    """
    known = [one for one in COUNTERS if one.sai and one.column in shot.values]
    names: dict[str, str] = {}
    queues: dict[str, str] = {}
    tables: dict[str, Any] = {}
    for at, port in enumerate(shot.ports):
        if port.is_host:
            continue
        oid = f"oid:0x{PORT_OID + len(names) + 1:x}"
        names[clean(port.name)] = oid
        values = {one.sai: str(shot.values[one.column][at]) for one in known}
        if shot.is_pfc and shot.lanes is not None:
            values |= _pfc(shot, at)
        tables[f"COUNTERS:{oid}"] = {"type": "hash", "value": values}
        if shot.lane_count == 1:
            # With a single queue, the marks of a port are those of its queue.
            queue = f"oid:0x{QUEUE_OID + len(names):x}"
            queues[f"{clean(port.name)}:0"] = queue
            marks = {"SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS": str(shot.values["marked_packets"][at])}
            tables[f"COUNTERS:{queue}"] = {"type": "hash", "value": marks}
    if queues:
        tables["COUNTERS_QUEUE_NAME_MAP"] = {"type": "hash", "value": queues}
    whole = {"COUNTERS_PORT_NAME_MAP": {"type": "hash", "value": names}, **tables}
    return json.dumps(whole, indent=2) + "\n"


def _pfc(shot: Snapshot, at: int) -> dict[str, str]:
    """Return the counters of priority flow control of a port, for all priorities."""
    assert shot.lanes is not None
    here = {lane.priority: lane for lane in shot.lanes[at]}
    there = {lane.priority: lane for lane in shot.lanes[shot.opposite[at]]}
    values = {}
    for priority in range(max(PRIORITIES, *(one + 1 for one in (*here, *there, 0)))):
        prefix = f"SAI_PORT_STAT_PFC_{priority}"
        received, sent = here.get(priority), there.get(priority)
        values[f"{prefix}_RX_PKTS"] = str(received.frames if received else 0)
        values[f"{prefix}_TX_PKTS"] = str(sent.frames if sent else 0)
        values[f"{prefix}_RX_PAUSE_DURATION_US"] = str(_us(received.paused_ns if received else 0.0))
        values[f"{prefix}_TX_PAUSE_DURATION_US"] = str(_us(sent.paused_ns if sent else 0.0))
    return values


def _us(time_ns: float) -> int:
    return math.floor(time_ns / 1000)


def prometheus(shot: Snapshot) -> str:
    """Return the counters with the names of node_exporter, and `silvan_` names for those that it lacks.

    The label `device` is the name of the node. Bytes are words times 4.
    """
    lines: list[str] = []
    for one in COUNTERS:
        if one.prometheus and one.column in shot.values:
            lines.append(f"# TYPE {one.prometheus} {'gauge' if one.column in GAUGES else 'counter'}")
            values = zip(shot.ports, shot.values[one.column], strict=True)
            lines += [
                f"{one.prometheus}{{{_labels(port)}}} {one.factor * int(value)}" for port, value in values
            ]
    if shot.lanes is not None:
        lines += _pauses(shot)
    name = "silvan_notifications_received_total"
    lines += [f"# TYPE {name} counter", f"{name} {shot.notifications}"]
    return "\n".join([*lines, ""])


def _pauses(shot: Snapshot) -> list[str]:
    """Return the pauses of each priority that was paused."""
    assert shot.lanes is not None
    frames, paused = "silvan_port_pause_frames_received_total", "silvan_port_paused_microseconds_total"
    lines = []
    for name in (frames, paused) if shot.is_pfc else (paused,):
        lines.append(f"# TYPE {name} counter")
        for port, lanes in zip(shot.ports, shot.lanes, strict=True):
            for lane in lanes:
                value = lane.frames if name == frames else _us(lane.paused_ns)
                lines.append(f'{name}{{{_labels(port)},priority="{lane.priority}"}} {value}')
    return lines


def _labels(port: Port) -> str:
    # Hidden characters could control a terminal.
    name = clean(port.node).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'device="{name}",port="{port.number}"'
