"""A second model of a lossless network with congestion control: slow, short, separate.

It shares no code with the simulator and uses no optimizations. Every credit that returns, every output that
becomes free, and every delay that ends is an event. After the arrivals of an instant, every node decides what
to send. Time is in whole picoseconds. Fractions are exact.

    host --channel--> switch --channel--> switch --channel--> host
         <--credits--        <--credits--        <--credits--

| file | contents |
| --- | --- |
| `network` | the clock, the nodes, the counters |
| `links` | packets, channels, credits |
| `retrying` | errors of links, link-level retry |
| `pausing` | pause frames, the buffers of receivers and their thresholds |
| `hosts` | flows, injection, sinks |
| `acknowledging` | acknowledgements of several packets |
| `recovering`, `faults` | loss recovery at hosts; links and hosts that change |
| `marking` | the state of an output port's congestion manager |
| `switches` | the state that all switches share, and the VOQ switch |
| `queues` | the queues of an input, for any organization |
| `queued` | switches with such queues: a read port per queue, or one per input and iSLIP |
| `reactions`, `rdma`, `credits` | when a source may send its next packet |
| `streams` | random numbers |
| `rounds` | the input that an output serves next if inputs may be busy |
| `isolation` | special queues for congestion trees |
| `cioq` | switches with buffers at inputs and outputs |
| `sources`, `own_flows`, `forests` | the messages that hosts generate |
| `waking`, `adapters` | hosts that schedule their own attempts to send; hosts with an output buffer |
| `announcing`, `routes` | flows that are announced: their rates, their routes |
| `choices`, `ordering` | adaptive routing per packet, and the packet order at receivers |
| `hashing`, `spraying` | equal-cost multipath, several LIDs per host, and the entropy values of packets |
| `architectures` | the switch and host classes of a scenario |
| `fcfs` | outputs that serve first come, first served |
"""

from verify.reference.hosts import Flow, Host, Limiter
from verify.reference.links import Channel, Packet
from verify.reference.marking import PortState
from verify.reference.network import Network, Sample
from verify.reference.reactions import Control, TableControl
from verify.reference.switches import Switch, VoqSwitch

__all__ = [
    "Channel",
    "Control",
    "Flow",
    "Host",
    "Limiter",
    "Network",
    "Packet",
    "PortState",
    "Sample",
    "Switch",
    "TableControl",
    "VoqSwitch",
]
