"""Implements :func:`silvan.fabric.collide`, which finds the links that a job's messages share.

| module | what it does |
| --- | --- |
| `routes` | a fabric as arrays of hosts, links and tables |
| `flows` | the pairs of ranks that exchange messages |
| `collide` | demand on links, placements, the search for a better placement |
"""
