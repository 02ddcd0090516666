"""Shows runs while they progress: in a browser (``silvan run --watch``) or in a notebook.

Watching a run does not change its results.

| file | content |
| --- | --- |
| `recording.py` | what a run has sent so far, for any number of viewers |
| `page.py`, `*.js`, `*.css`, `watch.html` | the page; the playground of the site uses the same viewer |
| `server.py` | serves the page on the loopback interface |
| `widget.py`, `widget.js` | shows the page in a notebook |
"""

from __future__ import annotations

from silvan.live.recording import Recording
from silvan.live.server import Server

__all__ = ["Recording", "Server"]
