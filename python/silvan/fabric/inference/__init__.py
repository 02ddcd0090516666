"""Implements :func:`silvan.fabric.infer`, which finds the traffic and the causes behind counters of ports.

| module | what it does |
| --- | --- |
| `measured` | the difference of two dumps, for each link of a fabric; plausibility of units |
| `traffic` | the bytes of pairs of hosts that explain the counters, and how far they are determined |
| `roots` | outputs for which other ports wait |
| `forward` | a run of the traffic, whose counters are compared with the measured ones |
| `infer` | all of these, as a dictionary |
"""
