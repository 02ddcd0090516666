"""Creates the page that shows a run while it progresses."""

from __future__ import annotations

from html import escape
from importlib import resources

import silvan
from silvan._pages import digest, fill

#: Scripts shared with reports. The scripts of the viewer follow them on the page.
OF_REPORTS = ("data.js", "network.js", "difference.js", "chart.js", "main.js")
OF_VIEWERS = ("elements.js", "layout.js", "frame.js", "series.js", "sentence.js", "viewer.js")
#: Sources of the page's data: events from the server, or messages from the window that contains the page.
EVENTS, MESSAGES = "events", "messages"


def _asset(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def script() -> str:
    """Return the scripts that all viewers need."""
    return "\n".join(
        [_asset("silvan.report", name) for name in OF_REPORTS]
        + [_asset("silvan.live", name) for name in OF_VIEWERS]
    )


def style() -> str:
    """Return the style sheet that all viewers need."""
    return _asset("silvan.report", "report.css") + _asset("silvan.live", "viewer.css")


def player() -> str:
    """Return the networks of a page and the controls below them, which all viewers need."""
    return _asset("silvan.live", "player.html")


def html(title: str, source: str) -> str:
    """Return the page for a run; `source` is `EVENTS` or `MESSAGES`."""
    scripts, styles = f"{script()}\n{_asset('silvan.live', 'watch.js')}", style()
    values = {
        "POLICY": policy(scripts, styles, source),
        "TITLE": escape(title),
        "STYLE": styles,
        "SCRIPT": scripts,
        "SOURCE": source,
        "PLAYER": player(),
        "VERSION": escape(silvan.__version__),
    }
    return fill(_asset("silvan.live", "watch.html"), values)


def policy(scripts: str, styles: str, source: str) -> str:
    """Return the content security policy of the page, which allows no connections except to its server."""
    connect = "'self'" if source == EVENTS else "'none'"
    return (
        f"default-src 'none'; script-src {digest(scripts)}; style-src {digest(styles)}; "
        f"connect-src {connect}; img-src data:; base-uri 'none'; form-action 'none'"
    )


__all__ = ["EVENTS", "MESSAGES", "html", "player", "policy", "script", "style"]
