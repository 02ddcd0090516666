"""The ports among which a packet may choose: those to neighbors that are nearer to its destination."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from verify.wiring import Wiring

#: Per switch and destination the ports, in ascending order.
Groups = Mapping[str, Mapping[str, tuple[int, ...]]]
#: A switch and the port through which it sends.
Way = tuple[str, int]


def groups(net: Wiring, tables: Mapping[str, Mapping[str, int]]) -> Groups:
    """Return the groups of all switches.

    If the port in the table is not on a shortest route, the group has only this port.
    """
    around = {switch: net.neighbours(switch) for switch in net.switches}
    found: dict[str, dict[str, tuple[int, ...]]] = {switch: {} for switch in net.switches}
    for host in net.hosts:
        home = net.home_of(host)
        far = hops(around, home)
        for switch, ports in around.items():
            if host not in tables[switch]:
                # The host is in another plane.
                continue
            nearer = [port for port, other in ports if far.get(other, far[switch]) < far[switch]]
            if switch == home:
                nearer = [port for port, other in ports if other == host]
            port = tables[switch][host]
            found[switch][host] = tuple(sorted(nearer)) if port in nearer else (port,)
    return found


def hops(around: Mapping[str, list[tuple[int, str]]], start: str) -> dict[str, int]:
    """Return the number of hops from the switch `start` to each switch that it can reach."""
    found, front = {start: 0}, deque([start])
    while front:
        near = front.popleft()
        for _, other in around[near]:
            if other in around and other not in found:
                found[other] = found[near] + 1
                front.append(other)
    return found


def circle(net: Wiring, ports: Groups) -> list[Way]:
    """Return a cycle of outputs, each of which can wait for the next, and the last for the first.

    The list is empty if there is no such cycle. Packets start at switches with hosts.
    """
    after = waits(net, ports)
    done: set[Way] = set()
    for start in after:
        path: list[tuple[Way, list[Way]]] = [(start, sorted(after[start]))] if start not in done else []
        while path:
            held, following = path[-1]
            if not following:
                done.add(held)
                path.pop()
                continue
            wanted = following.pop()
            on_path = [way for way, _ in path]
            if wanted in on_path:
                return on_path[on_path.index(wanted) :]
            if wanted not in done:
                path.append((wanted, sorted(after[wanted])))
    return []


def waits(net: Wiring, ports: Groups) -> dict[Way, set[Way]]:
    """Return the possible next outputs of each output that packets may take."""
    behind = {switch: dict(net.neighbours(switch)) for switch in net.switches}
    after: dict[Way, set[Way]] = {}
    for host in net.hosts:
        homes = map(net.home_of, net.hosts)
        seen = {home for home in homes if host in ports[home]}
        front = deque(sorted(seen))
        while front:
            switch = front.popleft()
            for port in ports[switch][host]:
                following = behind[switch][port]
                next_ports = ports[following][host] if following in ports else ()
                after.setdefault((switch, port), set()).update((following, p) for p in next_ports)
                if following in ports and following not in seen:
                    seen.add(following)
                    front.append(following)
    return after
