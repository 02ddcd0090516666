"""The JSON Schema of study files, from the same lists of names that read them."""

from __future__ import annotations

from typing import Any

from silvan.sweeps.axes import RUNS_AT_MOST
from silvan.sweeps.measures import ACROSS, REDUCTIONS, STATISTICS, TABLES

TEXT = {"type": "string", "minLength": 1}
VALUES = {"type": "array", "minItems": 1}
SEED = {"type": "integer", "minimum": 0}
TIME = {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*(ps|ns|us|ms|s)\s*$"}


def _of(description: str, shape: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, **shape}


def _table(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties, **more}


def _range() -> dict[str, Any]:
    properties = {
        "from": _of("First value.", {"type": "number"}),
        "to": _of("Last value.", {"type": "number"}),
        "step": _of("From each value to the next.", {"type": "number"}),
        "count": _of("How many values.", {"type": "integer", "minimum": 2}),
        "scale": _of("With `count`: equal steps, or equal factors.", {"enum": ["linear", "log"]}),
    }
    return _table(
        properties, required=["from", "to"], oneOf=[{"required": ["step"]}, {"required": ["count"]}]
    )


def _axis() -> dict[str, Any]:
    properties = {
        "key": _of("Key of the scenario, dotted, as after --set.", TEXT),
        "values": _of("Its values; of a zip, what its steps are called.", VALUES),
        "range": _of("Its values, evenly spaced.", _range()),
        "unit": _of("Unit of the values; with `key`, it is also written behind each.", {"type": "string"}),
        "name": _of("Column of the table; by default the key.", TEXT),
        "zip": _of(
            "Keys that move together: a list of values for each.",
            {"type": "object", "minProperties": 1, "additionalProperties": VALUES},
        ),
    }
    return _table(properties, oneOf=[{"required": ["key"]}, {"required": ["zip"]}])


def _measure() -> dict[str, Any]:
    names = {"anyOf": [TEXT, {"type": "array", "items": TEXT, "minItems": 1}]}
    properties = {
        "name": _of("Column of the table.", TEXT),
        "unit": _of("Its unit, for headings.", {"type": "string"}),
        "summary": _of("Path of a number in summary.json; entries of lists by their names.", names),
        "table": _of("Table of the run.", {"enum": list(TABLES)}),
        "column": _of("Column of the table, or received_gbit_s, sent_gbit_s.", TEXT),
        "of": _of("Names or patterns of flows, hosts or links; all by default.", names),
        "over_time": _of("What becomes of a name's values over time.", {"enum": list(REDUCTIONS)}),
        "across": _of("What then becomes of those of the names.", {"enum": list(ACROSS)}),
        "statistic": _of("Instead: of names and intervals at once.", {"enum": list(STATISTICS)}),
        "start": _of("From when on; by default from the end of the warm-up.", TIME),
        "end": _of("Until when; by default to the end.", TIME),
    }
    either = [{"required": ["summary"]}, {"required": ["table", "column"]}]
    return _table(properties, required=["name"], oneOf=either)


def schema() -> dict[str, Any]:
    """Return the schema."""
    seeds = [
        {"type": "integer", "minimum": 1, "maximum": RUNS_AT_MOST},
        {"type": "array", "items": SEED, "minItems": 1, "uniqueItems": True},
    ]
    properties = {
        "name": _of("Name of the study, and of its folder; by default that of its file.", TEXT),
        "description": _of("What it is about.", {"type": "string"}),
        "scenario": _of("Scenario file, relative to the study.", TEXT),
        "seeds": _of("How many seeds (1, 2, ...), or which; by default the scenario's.", {"anyOf": seeds}),
        "keep": _of("What is kept of each run.", {"enum": ["tables", "summary"]}),
        "set": _of("Keys of the scenario that are set in every run.", {"type": "object"}),
        "axis": _of("Axes; the last counts fastest.", {"type": "array", "items": _axis()}),
        "measure": _of("Numbers taken of each run.", {"type": "array", "items": _measure()}),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Silvan study",
        **_table(properties, required=["scenario"]),
    }
