"""Windows that all flows from a host to another one share, over all ports."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from verify.ports import Ported
from verify.reference.reactions import Control, control

if TYPE_CHECKING:
    from verify.reference.hosts import Host
    from verify.reference.network import Network


class Windows:
    """The windows of a network.

    An answer to a port wakes the other ports of its host with flows that wait for the window.
    """

    def __init__(self, net: Network) -> None:
        self.net = net
        #: The window of each pair of hosts.
        self.of: dict[tuple[str, str], Control] = {}
        #: For each window, the ports with flows that wait, in the order in which they began to wait.
        self.waiting: dict[Control, list[Host]] = {}
        #: Ports to be woken.
        self.to_wake: list[Host] = []

    def host_of(self, port: str) -> str:
        """Return the host to which a port belongs."""
        return port.rpartition(".")[0] if isinstance(self.net.plan.wiring, Ported) else port

    def control(self, port: Host, destination: str) -> Control:
        """Return the window of a port for a destination. The rate is that of all ports of the host."""
        pair = self.host_of(port.name), self.host_of(destination)
        if pair not in self.of:
            ports = [host for name, host in self.net.hosts.items() if self.host_of(name) == pair[0]]
            pace = 1 / sum((1 / host.out.usual_pace for host in ports), Fraction(0))
            self.of[pair] = control(self.net, port.name, 0, pace)
        return self.of[pair]

    def wait(self, window: Control, port: Host) -> None:
        """Record that a flow of a port waits for a window."""
        waiting = self.waiting.setdefault(window, [])
        if port not in waiting:
            waiting.append(port)

    def changed(self, window: Control, port: Host) -> None:
        """Record that an answer to a port has changed a window."""
        waiting = self.waiting.get(window, [])
        for other in [one for one in waiting if one is not port]:
            waiting.remove(other)
            other.changed.append(window)
            self.to_wake.append(other)

    def wake(self) -> None:
        """Wake the ports whose windows have changed."""
        to_wake, self.to_wake = self.to_wake, []
        for port in to_wake:
            port.wake(0, self.net.now)
