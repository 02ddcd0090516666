"""The published experiments: run them, and compare the results with the published numbers.

An experiment is a folder of ``papers/``, named by its id (``papers/T4``):

* ``published.toml``: title, source, and one ``[[row]]`` per published number, with tolerance,
  assumption and, where a number is known to be missed, the reason;
* ``experiment.py``: ``runs(quick)`` names the runs, ``compare(results)`` computes the simulated
  numbers from their results, seed by seed, ``plot(results, out)`` draws them in the shape of the
  published figure, with the runs that ``runs_for_plot(quick)`` may add. A run is a
  scenario with overrides or, where no packets are simulated, the name of a function of
  ``experiment.py`` with its arguments;
* its scenarios, or those it shares with others from ``papers/common``. Code that several experiments
  share is there, too; :func:`common` imports it.

What all of them gave is in ``papers/record.json``; see :mod:`silvan.papers.record`.

Everything goes through :class:`silvan.Scenario` and :func:`silvan.run`, as for any user.
"""

from silvan.papers.catalogue import Experiment, PapersError, common, find_papers, list_experiments
from silvan.papers.data import Results, RunData
from silvan.papers.rows import Row
from silvan.papers.runner import run_experiments

__all__ = [
    "Experiment",
    "PapersError",
    "Results",
    "Row",
    "RunData",
    "common",
    "find_papers",
    "list_experiments",
    "run_experiments",
]
