"""Tests the documentation site: the steps before MkDocs, and the result."""

import base64
import json
import re
import zlib

import pytest

import build_site
import playground
import versions
from browser import browser
from conftest import ROOT
from silvan.papers import list_experiments


@pytest.fixture
def site(tmp_path, monkeypatch):
    for name in ("PAGES", "HTML"):
        monkeypatch.setattr(build_site, name, tmp_path / name.lower())
        (tmp_path / name.lower()).mkdir()
    return tmp_path


def test_lists_are_indented_as_python_markdown_wants_them():
    text = """- one
  continues

  ```sh
  make
  ```
  - in it
    continues

1. first
   continues
10. tenth
    continues

after
"""
    assert (
        build_site.relisted(text)
        == """- one
    continues

    ```sh
    make
    ```
    - in it
        continues

1. first
    continues
10. tenth
    continues

after
"""
    )


def test_pages_and_the_files_they_name_are_gathered(site):
    build_site.gather()
    pages = {str(path.relative_to(site / "pages")) for path in (site / "pages").rglob("*.md")}
    here = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert pages >= here | {*build_site.TEXTS}
    assert (site / "pages" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert (site / "pages" / "docs" / "img" / "forest.gif").is_file()
    # Every page is in the navigation; otherwise MkDocs would report it.
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:")[1]
    made = {"docs/columns.md", "gallery.md", "reports.md", "scoreboard.md"}
    assert set(re.findall(r"[\w./-]+\.md", nav)) == here | made | {*build_site.TEXTS}


def test_the_scoreboard_has_every_published_number_and_filters(site):
    build_site.make_scoreboard()
    text = (site / "pages" / "scoreboard.md").read_text(encoding="utf-8")
    experiments = list_experiments()
    count = sum(len(one.rows) for one in experiments)
    assert text.count("<tr data-source=") == count
    for one in experiments:
        assert text.count(f">{one.id}</a>") == len(one.rows)
    script = (ROOT / "tools" / "site" / "scoreboard.js").read_text(encoding="utf-8")
    page_file = site / "page.html"
    body = text.split("\n\n", 2)[2]
    page_file.write_text(
        f"<!doctype html><meta charset=utf-8><title>s</title><script>{script}</script>{body}"
    )
    with browser(site / "profile") as page:
        page.call("Page.navigate", url=page_file.as_uri())
        page.wait("document.getElementById('score-filter')?.hidden === false")

        rows = "[...document.querySelectorAll('#scores tbody tr')].filter((one) => !one.hidden)"
        counted = text.count('data-counted="yes"')
        assert 0 < page.run(f"{rows}.length") == counted < count
        assert page.run(f"{rows}.every((one, at) => one.rowIndex === at + 1)"), "counted rows go first"

        def shown(words="", source="", verdict="", counted=""):
            values = {"score-words": words, "score-source": source, "score-verdict": verdict}
            values["score-counted"] = counted
            for name, value in values.items():
                page.run(
                    f"(() => {{ const one = document.getElementById('{name}'); one.value = {value!r};"
                    "one.dispatchEvent(new Event('input')); })()"
                )
            return page.run(f"{rows}.length"), page.run("document.getElementById('score-count').textContent")

        missed, met = (text.count(f'data-verdict="{verdict}"') for verdict in ("missed", "met"))
        assert shown() == (count, f"{count} of {count} numbers, {met} met")
        assert 0 < missed < count - met
        assert shown(verdict="missed") == (missed, f"{missed} of {count} numbers, 0 met")
        of_one = text.count('<tr data-source="Paper IV"')
        assert 0 < shown(source="Paper IV")[0] == of_one < count
        assert 0 < shown(words="hotspots paper iv")[0] < of_one
        assert shown(words="xyzzy")[0] == 0
        assert not page.complaints


@pytest.mark.parametrize(
    ("body", "is_fine"),
    [
        ('<a href="other.html#there">x</a> <a href="https://example.org">x</a> <img src="a%20b.png">', True),
        ('<a href="#here">x</a> <p id="here"> <img src="data:image/gif;base64,">', True),
        ('<a href="sub/">x</a>', True),
        ('<a href="missing.html">x</a>', False),
        ('<a href="other.html#nowhere">x</a>', False),
        ('<img src="missing.png">', False),
        ('<script src="https://example.org/a.js"></script>', False),
        ('<link rel="stylesheet" href="https://example.org/a.css">', False),
        ('<a href="//example.org">x</a>', False),
    ],
)
def test_links_that_lead_nowhere_are_found(site, body, is_fine):
    html = site / "html"
    (html / "sub").mkdir()
    (html / "sub" / "index.html").write_text("in it")
    (html / "other.html").write_text('<h2 id="there">there</h2>')
    (html / "a b.png").write_bytes(b"")
    (html / "page.html").write_text(body)
    if is_fine:
        assert build_site.check() == 3
    else:
        with pytest.raises(build_site.SiteError, match=r"1 links lead nowhere: page\.html: "):
            build_site.check()


@pytest.mark.parametrize("words", ["NCCL", "RoCE", "PFC storm", "ECN threshold", "incast"])
def test_words_that_users_search_are_in_headings(words):
    """The search of the site ranks headings before text."""
    pages = (ROOT / "docs").glob("*.md")
    lines = [line.lower() for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    headings = [line for line in lines if line.startswith("#")]
    assert any(words.lower() in heading for heading in headings)


def test_a_site_without_the_playground_says_why(site, monkeypatch, capsys):
    def missing():
        raise playground.MissingError("no compiler for it", is_unexpected=is_unexpected)

    monkeypatch.setattr(playground, "build_module", missing)
    build_site.gather()
    page = site / "pages" / "docs" / "playground.md"
    monkeypatch.delenv("SILVAN_SKIPS", raising=False)
    is_unexpected = True
    build_site.make_playground()
    assert "the playground is left out: no compiler for it" in capsys.readouterr().err
    assert "This site was built without the playground: no compiler for it." in page.read_text()
    assert not (site / "pages" / "playground.html").exists()
    # In CI, the playground must exist if the compiler supports the target.
    monkeypatch.setenv("SILVAN_SKIPS", "expected")
    with pytest.raises(build_site.SiteError, match="no playground: no compiler for it"):
        build_site.make_playground()


def test_the_columns_of_results_have_a_page(site):
    build_site.gather()
    build_site.make_columns()
    assert "(columns.md)" in (site / "pages" / "docs" / "results.md").read_text(encoding="utf-8")
    assert "| `lost_share` |" in (site / "pages" / "docs" / "columns.md").read_text(encoding="utf-8")


def test_a_check_builds_no_playground(site, monkeypatch):
    monkeypatch.setattr(playground.subprocess, "run", None)
    monkeypatch.setenv("SILVAN_PLAYGROUND", "none")
    monkeypatch.setenv("SILVAN_SKIPS", "expected")
    build_site.gather()
    build_site.make_playground()
    assert "without the playground: SILVAN_PLAYGROUND is none." in (
        site / "pages" / "docs" / "playground.md"
    ).read_text(encoding="utf-8")


def test_the_playground_contains_what_it_needs_and_asks_for_nothing(site, monkeypatch):
    monkeypatch.setattr(playground, "build_module", lambda: b"module")
    monkeypatch.setattr(playground, "native_speeds", lambda: {"testbed": 1.5})
    build_site.gather()
    build_site.make_playground()
    text = (site / "pages" / "playground.html").read_text(encoding="utf-8")
    assert "{{" not in text
    assert base64.b64encode(zlib.compress(b"module", 9)).decode() in text
    assert re.findall(r"""(?:src|href)=["']?(?!docs/playground\.html)[^"'>]+""", text) == []
    assert "](../playground.html)" in (site / "pages" / "docs" / "playground.md").read_text()


def test_sites_of_several_versions_share_a_folder(tmp_path):
    site, folder = tmp_path / "html", tmp_path / "sites"
    with pytest.raises(FileNotFoundError, match="no site; run `make site`"):
        versions.add(site, folder, "0.9.0")
    site.mkdir()
    for version in ("0.9.0", "0.10.0", "0.9.0"):
        (site / "index.html").write_text(version)
        added = versions.add(site, folder, version)
    assert added == ["0.10.0", "0.9.0"]
    listed = json.loads((folder / "versions.json").read_text())
    assert [one["version"] for one in listed] == added
    assert (folder / "0.10.0" / "index.html").read_text() == "0.10.0"
    assert 'url=0.10.0/"' in (folder / "index.html").read_text()
