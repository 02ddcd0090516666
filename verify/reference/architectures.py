"""The switch and host classes of a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING

from verify.reference.adapters import AdapterHost
from verify.reference.cioq import CioqSwitch
from verify.reference.fcfs import FcfsSwitch
from verify.reference.hosts import Host
from verify.reference.queued import IslipSwitch, RoundRobinSwitch
from verify.reference.switches import Switch, VoqSwitch
from verify.reference.waking import WakingHost

if TYPE_CHECKING:
    from verify.reference.network import Network


def host(net: Network, name: str) -> Host:
    """Return a host, with or without an output buffer."""
    return AdapterHost(net, name) if net.plan.adapter else WakingHost(net, name)


def switch(net: Network, name: str) -> Switch:
    """Return a switch of the plan's architecture."""
    plan = net.plan.switch
    if plan.is_fcfs:
        return FcfsSwitch(net, name)
    if plan.architecture == "cioq":
        return CioqSwitch(net, name)
    if plan.architecture == "iq":
        return IslipSwitch(net, name)
    is_plain = plan.queues.kind == "per-output" and not plan.has_rounds and not plan.control_first
    is_plain = is_plain and net.plan.congestion.isolation is None
    return VoqSwitch(net, name) if is_plain else RoundRobinSwitch(net, name)
