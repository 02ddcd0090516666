// Examples: settings, and what to observe.

const STORIES = [
  {
    id: "parking-lot", name: "Parking lot", speed: 200,
    text: "Four hosts send to H5. H2 and H3 share one link to its switch and get half as much as H6 and H7: a switch serves its inputs in turn. H1 sends to an idle host and falls to a sixth of its rate.",
    settings: "net=testbed&load=0&length=3000&hot=H5~H2+H3+H6+H7@300&victims=H1:H4&a=none",
  },
  {
    id: "victim", name: "A victim", speed: 100,
    text: "H1 sends to H38, which is idle. At 200 µs, twelve other hosts begin to send to H22. Their packets share links with those of H1, which falls to less than a tenth of its rate. With EcoCC (second picture), packets for H22 wait in queues of their own, and H1 keeps its rate.",
    settings: "net=fat-tree&load=20&length=3000&hot=H22~12@200&victims=H1:H38&a=none&b=ecocc",
  },
  {
    id: "moving-tree", name: "A moving tree", speed: 200,
    text: "The hotspot moves every 600 µs. Without control, the old tree drains while the new one grows. Special queues (second picture) keep other packets out of both.",
    settings: "net=fat-tree&load=25&length=2600&hot=H22~16@200-800,H41~16@800-1400,H7~16@1400-2000&a=none&b=fbicm",
  },
  {
    id: "bad-tuning", name: "Badly tuned IB CC", speed: 200,
    text: "The same mechanism twice. With a late timer and large steps (second picture), senders slow down so much that the link to the hotspot is idle for part of the time.",
    settings: "net=fat-tree&load=20&length=4000&hot=H22~12@200&victims=H1:H38&a=ib-cc,table:16&b=ib-cc,increase:16,timer:600,table:32",
  },
  {
    id: "ecocc", name: "EcoCC", speed: 100,
    text: "InfiniBand CC (first picture) acts after marks have reached the senders, and slows the victim H1 down as well. EcoCC (second picture) first isolates congested packets in special queues, so that others pass them, and then slows their senders down.",
    settings: "net=fat-tree&load=20&length=3000&hot=H22~12@200,H41~12@600&victims=H1:H38&a=ib-cc,table:16&b=ecocc,table:16",
  },
  {
    id: "ethernet", name: "DCQCN and HPCC", speed: 200,
    text: "An Ethernet fabric at 400 Gbit/s with pause frames. Twelve hosts send to H22. DCQCN (first picture) acts on marks: before its rates have fallen, links are paused up to the hosts, and afterwards the senders leave two thirds of the link to H22 idle for 300 µs. With HPCC (second picture), switches report their utilization in each packet: no tree lasts, and no link is paused.",
    settings: "net=ethernet&load=10&length=1500&hot=H22~12@100&victims=H1:H23&a=dcqcn&b=hpcc",
  },
  {
    id: "per-packet", name: "Routing per packet", speed: 100,
    text: "Routing per packet (second picture) avoids busy links. But no route avoids a hotspot: packets wait on every route, and the tree spreads to more links.",
    settings: "net=fat-tree&load=25&length=2500&hot=H22~12@200&a=none&b=none,spread",
  },
];
