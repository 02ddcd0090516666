"""Equal-cost multipath: a hash of a packet's fields selects one of the ports that lead nearer.

If hosts have several LIDs, the hash selects one of the LIDs of the destination.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from verify.mixing import drawn
from verify.reading import Ecmp
from verify.reference.links import Packet
from verify.reference.streams import Stream

if TYPE_CHECKING:
    from verify.reference.switches import Switch


def below(switch: Switch, rule: Ecmp) -> int:
    """Return the number of routes that source routes distinguish below a switch.

    It is the product, over all levels that are nearer to hosts, of the most ports from which a switch can
    choose.
    """
    net = switch.net.plan.wiring
    level = dict.fromkeys(map(net.home_of, net.hosts), 0)
    row = list(level)
    while row:
        peers = {name for one in row for _, name in net.neighbours(one) if name in net.switches}
        row = [name for name in peers if name not in level]
        level.update(dict.fromkeys(row, max(level.values()) + 1))
    product = 1
    for nearer in range(level.get(switch.name, 0)):
        product *= max(
            len(ports) for name in level if level[name] == nearer for ports in rule.groups[name].values()
        )
    return product


class Hashing:
    """The hash of one switch."""

    def __init__(self, switch: Switch, rule: Ecmp) -> None:
        self.switch = switch
        self.groups = rule.groups[switch.name]
        #: Whether the entropy value of a packet is the position of its port, as with path bits per packet.
        self.is_position = rule.by_lid and rule.spraying != "none"
        #: The product of the numbers of ports below this switch, if entropy values are source routes.
        self.below = below(switch, rule) if rule.by_digit else None
        #: All switches must select the same LID, so they have the same salt.
        self.salt = 0 if rule.by_lid else Stream(switch.net.plan.seed, "ecmp", switch.number).bits()

    def output(self, packet: Packet) -> int:
        """Return the output of a packet. An answer counts as a packet of its flow in the other direction."""
        group = self.groups[packet.destination]
        output = self.choice(packet, group)
        others = [port for port in group if port not in self.switch.avoided]
        return output if output in others or not others else self.choice(packet, others)

    def choice(self, packet: Packet, group: Sequence[int]) -> int:
        """Select one of the ports of a group."""
        if self.below is not None:
            return group[packet.entropy // self.below % len(group)]
        if self.is_position:
            return group[packet.entropy % len(group)]
        there, back = packet.flow.ends
        sender = back if packet.destination == there else there
        numbers = self.switch.net.number
        words = (
            self.salt,
            numbers[sender],
            numbers[packet.destination],
            packet.entropy * 2**16 + packet.flow.source.number,
        )
        return group[drawn(words) % len(group)]
