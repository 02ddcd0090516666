"""Builds the site of the documents in target/site/html; `make site` runs this program.

    python tools/site/build_site.py

The site contains pages of the repository at the same relative paths, so that their links work: docs/, the
README and the other files of `TEXTS`, and the files to which they link. This program generates the other
pages:

- the gallery with its pictures, and live reports;
- the scoreboard (the rows of papers/ with the recorded numbers), and a page per paper;
- a page per table of scenario files, from their schema;
- the playground, unless the compiler cannot build a module for browsers;
- the reference of the Python modules, from their docstrings.

MkDocs converts the pages to HTML. Its warnings are errors, as are broken links in the HTML and resources that
a page loads from another machine.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml
from markdown_it import MarkdownIt

import gallery
import playground
import silvan
from silvan import _columns, _reference, report
from silvan.papers import find_papers, list_experiments, record, score
from silvan.papers.catalogue import VERDICTS
from silvan.papers.causes import read_causes
from silvan.papers.history import of_papers
from silvan.papers.page import by_paper, paper_pages, slug, summary
from silvan.papers.rows import expected_text, marks, simulated_text, tolerance_text

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "target" / "site"
PAGES, HTML = SITE / "pages", SITE / "html"
TEXTS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "benches/history.md", "verify/README.md")
#: Python modules of the reference.
MODULES = (
    "silvan", "silvan.forest", "silvan.plot", "silvan.forest_figures", "silvan.report", "silvan.scenarios",
    "silvan.sweeps", "silvan.traces", "silvan.fairness", "silvan.flow_level", "silvan.papers",
)  # fmt: skip
#: The line of docs/scenario.md that the list of tables replaces.
KEYS = "<!-- keys -->"
#: The line of docs/papers.md that the score replaces.
SCORE = "<!-- score -->"
#: The line of docs/verification.md that the list of checks replaces.
CHECKS = "<!-- checks -->"
#: The line of docs/results.md that a link to the columns of tables replaces.
COLUMNS = "<!-- columns -->"
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


class SiteError(Exception):
    """An error of the site."""


def main() -> int:
    """Build the site; return the exit status."""
    shutil.rmtree(SITE, ignore_errors=True)
    PAGES.mkdir(parents=True)
    try:
        gather()
        make_gallery()
        make_reports()
        make_playground()
        make_scoreboard()
        make_papers()
        make_keys()
        make_checks()
        make_columns()
        make_reference()
        build()
        pages = check()
    except SiteError as error:
        print(f"site: {error}", file=sys.stderr)
        return 1
    print(f"{pages} pages in {HTML.relative_to(ROOT)}")
    return 0


def gather() -> None:
    """Copy the repository's pages, and the files to which they link."""
    shutil.copytree(ROOT / "docs", PAGES / "docs", ignore=shutil.ignore_patterns("*.md", "__pycache__"))
    for path in (*(ROOT / name for name in TEXTS), *sorted((ROOT / "docs").rglob("*.md"))):
        text = path.read_text(encoding="utf-8")
        write(path.relative_to(ROOT).as_posix(), relisted(text))
        for target in LINK.findall(text):
            file = (path.parent / target).resolve()
            copy = PAGES / file.relative_to(ROOT)
            if file.is_file() and file.suffix != ".md" and not copy.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)
    assets = PAGES / "assets"
    assets.mkdir()
    for name in ("site.css", "scoreboard.js"):
        shutil.copyfile(Path(__file__).with_name(name), assets / name)


def relisted(text: str) -> str:
    """Return Markdown with the contents of lists indented by four columns per level, for Python-Markdown."""
    lines = text.split("\n")
    more = [0] * len(lines)
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type != "list_item_open" or token.map is None:
            continue
        first, last = token.map
        mark = re.match(r"\s*(?:[-*+]|\d+[.)])\s+", lines[first])
        width = len(mark[0].lstrip()) if mark else 2
        for line in range(first + 1, last):
            more[line] += 4 - width
    # The first line of an item is indented like the items around it.
    return "\n".join(
        " " * count + line if count > 0 and line.strip() else line
        for count, line in zip(more, lines, strict=True)
    )


def write(name: str, text: str) -> None:
    """Write a page; `name` is its path in the sources of the site."""
    path = PAGES / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def make_gallery() -> None:
    """Draw the gallery's pictures, and write the page that shows each picture with its code."""
    parts = [
        "# Gallery\n\nThe build of this site drew these pictures. The code below each picture draws it.\n"
    ]
    for draw in gallery.PICTURES:
        picture = draw(PAGES / "gallery")
        caption = (inspect.getdoc(draw) or "").removesuffix(".")
        source = textwrap.dedent(inspect.getsource(draw))
        parts.append(f"## {caption}\n\n![{caption}](gallery/{picture.name})\n\n```python\n{source}```\n")
    shared = "\n\n".join(inspect.getsource(one.__wrapped__) for one in (gallery.testbed, gallery.silent))
    parts.append(f"## The runs\n\n```python\n{shared}```\n")
    write("gallery.md", "\n".join(parts))


def make_reports() -> None:
    """Write reports, and the page that shows one."""
    titles = ("CC off", "CC on")
    folder = PAGES / "reports"
    report.write([gallery.testbed("none"), gallery.testbed("ib-cc")], folder / "testbed.html", titles=titles)
    report.write(
        [gallery.silent("none"), gallery.silent("ib-cc")], folder / "silent-forest.html", titles=titles
    )
    write(
        "reports.md",
        """# A report, live

The testbed without and with congestion control, as `silvan demo` writes it: play, slide, point, click.
[On a page of its own](reports/testbed.html); another one: [a silent forest on 648
hosts](reports/silent-forest.html), while control settles. [What is what](docs/report.md).

<iframe class="report" src="reports/testbed.html" title="The testbed without and with control"></iframe>
""",
    )


def make_playground() -> None:
    """Write the playground and a link to it in its document, or print why it is omitted.

    Raises :class:`SiteError` if `SILVAN_SKIPS` is `expected` and the playground should be available.
    """
    try:
        module = playground.build_module()
    except playground.MissingError as missing:
        if os.environ.get("SILVAN_SKIPS") == "expected" and missing.is_unexpected:
            raise SiteError(f"no playground: {missing}") from missing
        print(f"site: the playground is left out: {missing}", file=sys.stderr)
        shown = f"This site was built without the playground: {missing}."
    else:
        (PAGES / "playground.html").write_text(
            playground.page(module, playground.native_speeds()), encoding="utf-8"
        )
        shown = (
            "[Open the playground](../playground.html){ .md-button .md-button--primary }\n\n"
            '<iframe class="report" src="../playground.html" title="Playground"></iframe>'
        )
    replace_line(PAGES / "docs" / "playground.md", playground.PLACE, shown)


def make_scoreboard() -> None:
    """Write the table that compares all published numbers with the record."""
    rows, sources = [], {}
    found = record.rows_by_experiment(record.find_record(), list_experiments())
    pages = {one.id: slug(paper) for paper, members in by_paper(found) for one, _, _ in members}
    for experiment, _, table in found.values():
        for published, row in zip(experiment.rows, table, strict=True):
            paper, _, where = published.source.partition(", ")
            sources[paper] = None
            verdict = row["verdict"]
            why = [row[name] for name in ("reason", "basis", "weak") if name in row]
            below = f"<small>{escape(' '.join(why))}</small>" if why else ""
            marked = "".join(f"<small>{name}</small>" for name in marks(row))
            origin = f"{escape(paper)}<small>{escape(where)}</small>"
            cells = (
                f'<a href="docs/papers/{pages[experiment.id]}.html" title="{escape(experiment.title)}">'
                f"{experiment.id}</a>",
                f"{escape(row['quantity'])}{below}", expected_text(row), simulated_text(row),
                escape(row["unit"]), tolerance_text(row),
                f'<span class="{verdict}">{verdict}</span>{marked}', origin,
            )  # fmt: skip
            body = "".join(f"<td>{cell}</td>" for cell in cells)
            category = score.CATEGORIES.index(score.category(row))
            is_counted = category < len(score.HEADLINE) and not experiment.law
            line = score.LINES.index(score.line_of(experiment.other_source))
            counted = ' data-counted="yes"' if is_counted else ""
            text = f'<tr data-source="{escape(paper)}" data-verdict="{verdict}"{counted}>{body}</tr>'
            rows.append(((not is_counted, line, category), text))
    heads = ("id", "quantity", "published", "simulated", "unit", "tolerance", "verdict", "source")
    fill = {
        "SOURCES": "".join(f"<option>{escape(name)}</option>" for name in sorted(sources)),
        "VERDICTS": "".join(f"<option>{name}</option>" for name in VERDICTS),
        "HEAD": "".join(f"<th>{name}</th>" for name in heads),
        # The rows that the headline counts come first.
        "ROWS": "\n".join(text for _, text in sorted(rows, key=lambda row: row[0])),
    }
    page = Path(__file__).with_name("scoreboard.template").read_text(encoding="utf-8")
    write("scoreboard.md", re.sub("{{(.*?)}}", lambda match: fill[match[1]], page))


def make_papers() -> None:
    """Write the score and the page of each paper from the record."""
    found = record.rows_by_experiment(record.find_record(), list_experiments())
    replace_line(PAGES / "docs" / "papers.md", SCORE, summary(found, of_papers()))
    for name, text in paper_pages(found, read_causes(), find_papers() / "notes", "../img").items():
        write(f"docs/papers/{name}", relisted(text))


def make_keys() -> None:
    """Write a page per table of scenario files, and a list of them in the document about scenarios."""
    schema = silvan.schema()
    for name, text in _reference.pages(schema).items():
        write(f"docs/keys/{name}", text)
    links = ["- [Keys outside tables](keys/run.md)"]
    for table in _reference.outer_tables(_reference.Reference(schema)):
        links.append(f"- [`{table.heading}`](keys/{_reference.page(table.path)}): {table.text}")
    replace_line(PAGES / "docs" / "scenario.md", KEYS, "\n".join(links))


def make_checks() -> None:
    """Write the output of `verify.covered` into the document about verification."""
    command = [sys.executable, "-m", "verify.covered"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SiteError(done.stderr.strip())
    replace_line(PAGES / "docs" / "verification.md", CHECKS, done.stdout.strip())


def make_columns() -> None:
    """Write the page of the columns of all tables, and a link to it in the document about results."""
    write("docs/columns.md", f"# Columns of results\n\n{_columns.markdown()}\n")
    replace_line(PAGES / "docs" / "results.md", COLUMNS, "[All columns](columns.md) of all tables.")


def replace_line(page: Path, line: str, text: str) -> None:
    """Replace a line that marks a position in a page; raises :class:`SiteError` if there is no such line."""
    content = page.read_text(encoding="utf-8")
    if line not in content:
        raise SiteError(f"{page.relative_to(PAGES)}: no line {line}")
    page.write_text(content.replace(line, text), encoding="utf-8")


def make_reference() -> None:
    """Write a page per module, and the configuration of MkDocs with all generated pages."""
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    papers = [f"docs/papers/{path.name}" for path in sorted((PAGES / "docs" / "papers").glob("*.md"))]
    keys = [f"docs/keys/{name}" for name in _reference.pages(silvan.schema())]
    pages = []
    for module in MODULES:
        write(f"reference/{module}.md", f"::: {module}\n")
        pages.append({module: f"reference/{module}.md"})
    for section in settings["nav"]:
        if "Python" in section:
            section["Python"] = pages
        if "Manual" in section:
            section["Manual"].append({"Keys of scenarios": keys})
        if "Published experiments" in section:
            section["Published experiments"].append({"Papers": papers})
    settings |= {"docs_dir": str(PAGES), "site_dir": str(HTML)}
    python = settings["plugins"][-1]["mkdocstrings"]["handlers"]["python"]
    python["paths"] = [str(ROOT / path) for path in python["paths"]]
    python["options"]["extensions"] = [str(ROOT / path) for path in python["options"]["extensions"]]
    (SITE / "mkdocs.yml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")


def build() -> None:
    """Run MkDocs; raises :class:`SiteError` for errors and warnings."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", SITE / "mkdocs.yml"]
    # The variable suppresses an announcement of the theme Material.
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SiteError((done.stdout + done.stderr).strip())


class Links(HTMLParser):
    """Collects the targets of a page's links, the resources that it loads, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.leads: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Read the attributes of an element that contain names."""
        given = {name: value for name, value in attributes if value is not None}
        self.names |= {given[name] for name in ("id", "name") if name in given}
        if "href" in given:
            (self.leads if tag == "a" else self.loads).append(given["href"])
        if "src" in given:
            self.loads.append(given["src"])


def check() -> int:
    """Check all links of the HTML; return the number of pages. Raises :class:`SiteError` for broken links."""
    pages = {path: Links(path.read_text(encoding="utf-8")) for path in sorted(HTML.rglob("*.html"))}
    wrong = [f"{path.relative_to(HTML)}: {link}" for path in pages for link in _broken(path, pages)]
    if wrong:
        raise SiteError(f"{len(wrong)} links lead nowhere: {'; '.join(wrong[:20])}")
    return len(pages)


def _broken(path: Path, pages: dict[Path, Links]) -> Iterator[str]:
    page = pages[path]
    for link in (*page.loads, *page.leads):
        parts = urlsplit(link)
        if parts.scheme == "data" or (parts.scheme in ("https", "mailto") and link in page.leads):
            continue
        # Links of the page for missing pages start at the root of the site.
        base = HTML if parts.path.startswith("/") else path.parent
        file = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
        file = file / "index.html" if file.is_dir() else file
        is_named = not parts.fragment or file not in pages or unquote(parts.fragment) in pages[file].names
        if parts.scheme or parts.netloc or not file.is_file() or not is_named:
            yield link


if __name__ == "__main__":
    sys.exit(main())
