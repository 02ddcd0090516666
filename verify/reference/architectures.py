"""Which switch a scenario asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from verify.quantities import NotCovered
from verify.reference.fcfs import FcfsSwitch
from verify.reference.queued import IslipSwitch, RoundRobinSwitch
from verify.reference.switches import Switch, VoqSwitch

if TYPE_CHECKING:
    from verify.reference.network import Network


def switch(net: Network, name: str) -> Switch:
    """Return a switch of the plan's architecture."""
    plan = net.plan.switch
    if net.plan.congestion.isolation is not None or plan.architecture == "cioq":
        raise NotCovered(f"switch.architecture = {plan.architecture}")
    if plan.is_fcfs:
        return FcfsSwitch(net, name)
    if plan.architecture == "iq":
        return IslipSwitch(net, name)
    is_plain = plan.queues.kind == "per-output" and not plan.has_rounds and not plan.control_first
    return VoqSwitch(net, name) if is_plain else RoundRobinSwitch(net, name)
