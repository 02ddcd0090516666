"""Tests the notebooks, one for each kind of reader. Every cell runs, in order, in a separate folder."""

import ast
import contextlib
import io
import json

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure

from conftest import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def run(source, names):
    """Run a cell; return its printed output with its last value as a notebook shows it, and its image."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(tree, "cell", "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    if value is None:
        return out.getvalue(), None
    # Outside of notebooks, matplotlib figures have no HTML.
    shown = (value._repr_html_() if hasattr(value, "_repr_html_") else None) or repr(value)
    # A cell that ends with a figure shows an image.
    image = value._repr_png_() if hasattr(value, "_repr_png_") else None
    assert image is not None or not isinstance(value, Figure)
    return out.getvalue() + shown, image


def test_there_is_one_for_each_reader():
    assert [path.stem for path in NOTEBOOKS] == ["cluster-engineer", "fabric-engineer", "researcher"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["cells"][0]["cell_type"]) == (4, "markdown")
    # A notebook runs in any folder.
    monkeypatch.chdir(tmp_path)
    names, shown, images = {}, [], []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            # Outputs depend on the version, so notebooks are stored without them.
            assert cell["outputs"] == []
            text, image = run("".join(cell["source"]), names)
            shown.append(text)
            images += [] if image is None else [image]
    plt.close("all")
    assert all(image.startswith(b"\x89PNG") for image in images)
    assert len(images) == {"researcher": 1, "fabric-engineer": 0, "cluster-engineer": 1}[path.stem]
    expected = {
        "researcher": ("99 %: -", "congestion tree", "<table>"),
        "fabric-engineer": ("pairs routed", "Leave it: ", "<iframe", "congestion_control"),
        "cluster-engineer": ("times a crossbar", "alone"),
    }[path.stem]
    everything = "\n".join(shown)
    for text in expected:
        assert text in everything, text
