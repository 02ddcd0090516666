"""Implements `silvan fabric study`, which shows what hotspots do to a fabric and recommends settings.

| module | what it does |
| --- | --- |
| `routes` | the links that each pair of hosts crosses, and their offered load |
| `load` | the traffic: hotspots, storage, background |
| `site` | the fabric of a study and the scenario of its runs |
| `study` | runs without and with congestion control, a survey of settings, margins |
| `verdict` | the settings that the study recommends |
| `account`, `figures` | the text and the figures of a study |
| `files` | the folder of a study |
"""
