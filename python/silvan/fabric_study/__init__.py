"""`silvan fabric study`: what hotspots do to a fabric, and what to set.

| module | what it does |
| --- | --- |
| `routes` | which links each pair of hosts crosses, what links are offered |
| `load` | who sends what: hotspots, storage, background |
| `study` | runs without and with control, a survey of settings, margins |
| `account`, `figures` | the text and the pictures of a study |
| `entry` | the command |
"""

from __future__ import annotations
