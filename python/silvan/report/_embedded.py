"""Shows a report in a notebook."""

from __future__ import annotations

from html import escape


class Embedded:
    """A report inside a frame in a notebook."""

    def __init__(self, page: str, height: int) -> None:
        self.page = page
        self.height = height

    def _repr_html_(self) -> str:
        # The sandbox lets the scripts of the page run, but gives them no access to the notebook.
        return (
            f'<iframe srcdoc="{escape(self.page, quote=True)}" sandbox="allow-scripts" title="Report" '
            f'style="width: 100%; height: {self.height}px; border: 0"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<silvan.report.Embedded: {len(self.page):,} characters of HTML>"
