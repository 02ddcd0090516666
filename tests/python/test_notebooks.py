"""Tests the notebooks, one for each kind of reader. Every cell runs, in order, in a separate folder."""

import ast
import contextlib
import io
import json

import matplotlib.pyplot as plt
import pytest

from conftest import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def run(source, names):
    """Run a cell; return its printed output, and its last value as a notebook would show it."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(tree, "cell", "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    if value is None:
        return out.getvalue()
    # Outside of notebooks, matplotlib figures return None.
    shown = (value._repr_html_() if hasattr(value, "_repr_html_") else None) or repr(value)
    return out.getvalue() + shown


def test_there_is_one_for_each_reader():
    assert [path.stem for path in NOTEBOOKS] == ["cluster-engineer", "fabric-engineer", "researcher"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["cells"][0]["cell_type"]) == (4, "markdown")
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)
    names, shown = {}, []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            # Outputs depend on the version, so notebooks are stored without them.
            assert cell["outputs"] == []
            shown.append(run("".join(cell["source"]), names))
    plt.close("all")
    expected = {
        "researcher": ("99 %: -", "congestion tree", "<Figure size"),
        "fabric-engineer": ("pairs routed", "Recommended: ", "<iframe", "congestion_control"),
        "cluster-engineer": ("times a crossbar", "<Figure size", "alone"),
    }[path.stem]
    everything = "\n".join(shown)
    for text in expected:
        assert text in everything, text
