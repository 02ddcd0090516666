"""Runs published experiments, and compares the results with the published numbers.

An experiment is a folder of ``papers/``, named by its id (``papers/T4``). It contains:

* ``published.toml``: the title, the source, and one ``[[row]]`` per published number, with the tolerance,
  the assumption and, if the number is known to be missed, the reason;
* ``experiment.py``: ``runs(quick)`` returns the runs by name, ``compare(results)`` computes the simulated
  numbers of one seed, and ``plot(results, out)`` draws them like the published figure. The optional
  ``runs_for_plot(quick)`` returns additional runs for the plot, and ``runs_of_seed(quick, n)`` replaces
  ``runs`` if the runs depend on the seed. A run is a scenario with overrides or, if no packets are simulated,
  the name of a function of ``experiment.py`` with its arguments;
* scenarios, unless it uses those in ``papers/common``. This folder also contains code that several
  experiments share; :func:`common` imports it.

``papers/record.json`` contains the results of all experiments; see :mod:`silvan.papers.record`.
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
