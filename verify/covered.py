"""Prints as Markdown what the oracles check: ``python -m verify.covered``.

The site includes this text in the page about verification. A kind of a table of scenario files counts as
compared if a listed or a random scenario contains it, after defaults and presets are resolved, and the second
model can run that scenario.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import silvan
from silvan._reference import Reference
from verify import cases, laws
from verify.__main__ import DRAWN
from verify.check import Check
from verify.compare import Scenario, toml
from verify.quantities import NotCovered
from verify.reading import plan

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Number of random scenarios without an additional feature, enough for rare topologies and routings. For each
#: feature in `DRAWN`, this number is divided by 3 and by the divisor of the feature.
SEEDS = 330


def scenarios(seeds: int = SEEDS) -> Iterator[Scenario]:
    """Yield the listed scenarios and the random ones of the first seeds."""
    for _, scenario in cases.table():
        yield scenario
    for title, drawn, share in DRAWN:
        count = seeds // (3 * share) if title else seeds
        for _, scenario in drawn(1, max(1, count)):
            yield scenario


def kinds(reference: Reference) -> dict[str, list[str]]:
    """Return the kinds of each table of scenario files that has several."""
    found: dict[str, list[str]] = {}
    for table in reference.tables:
        names = [one.kind for one in table.variants if one.kind]
        if len(names) > 1 and not table.same_as:
            found.setdefault(table.path, []).extend(names)
    return found


def contained(table: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the kind of each table of a resolved scenario that has a `kind`."""
    if isinstance(table, Mapping):
        if isinstance(kind := table.get("kind"), str):
            yield path, kind
        for key, inner in table.items():
            yield from contained(inner, f"{path}.{key}".lstrip("."))
    elif isinstance(table, list):
        for inner in table:
            yield from contained(inner, path)


def compared(found: Iterable[Scenario]) -> Counter[tuple[str, str]]:
    """Count the scenarios that the second model can run, by path and kind of the tables that they contain."""
    counts: Counter[tuple[str, str]] = Counter()
    for scenario in found:
        try:
            plan(scenario)
        except NotCovered:
            continue
        resolved = silvan.Scenario.from_toml(toml(scenario, top=True)).to_toml()
        counts.update(set(contained(tomllib.loads(resolved))))
    return counts


def formulas() -> Iterator[str]:
    """Yield what each comparison with a formula checks: the first line of its documentation."""
    every: tuple[Callable[..., Iterator[Check]], ...] = laws.LAWS
    for law in every:
        yield (law.__doc__ or "").strip().split("\n")[0]


def markdown(seeds: int = SEEDS) -> str:
    """Return a table of the kinds and a list of the formulas."""
    counts = compared(scenarios(seeds))
    lines = [
        "Kinds of components in the listed scenarios and in random ones of the first seeds:",
        "",
        "| table of scenario files | compared with the second model (number of scenarios) | not compared |",
        "| --- | --- | --- |",
    ]
    for path, names in kinds(Reference(silvan.schema())).items():
        with_model = [f"`{name}` ({counts[path, name]})" for name in names if counts[path, name]]
        without = [f"`{name}`" for name in names if not counts[path, name]]
        lines.append(f"| `{path}` | {', '.join(with_model)} | {', '.join(without)} |")
    lines += ["", "Comparisons with formulas and small models:", "", *(f"- {text}" for text in formulas())]
    return "\n".join(lines)


if __name__ == "__main__":
    print(markdown())
