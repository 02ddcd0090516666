"""The JSON Schema of study files, generated from the lists of names that the parser uses."""

from __future__ import annotations

from typing import Any

from silvan.sweeps.axes import RUNS_AT_MOST
from silvan.sweeps.measures import ACROSS, BYTES, OF_TRANSFERS, REDUCTIONS, STATISTICS, TABLES

TEXT = {"type": "string", "minLength": 1}
VALUES = {"type": "array", "minItems": 1}
SEED = {"type": "integer", "minimum": 0}
TIME = {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*(ps|ns|us|ms|s)\s*$"}
SIZE = {"type": "string", "pattern": rf"^\s*\d+(\.\d+)?\s*({'|'.join(BYTES)})\s*$"}


def _of(description: str, shape: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, **shape}


def _table(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties, **more}


def _range() -> dict[str, Any]:
    properties = {
        "from": _of("First value.", {"type": "number"}),
        "to": _of("Last value.", {"type": "number"}),
        "step": _of("Difference between neighboring values.", {"type": "number"}),
        "count": _of("Number of values.", {"type": "integer", "minimum": 2}),
        "scale": _of(
            "With `count`: equal differences (linear) or equal ratios (log).", {"enum": ["linear", "log"]}
        ),
    }
    return _table(
        properties, required=["from", "to"], oneOf=[{"required": ["step"]}, {"required": ["count"]}]
    )


def _axis() -> dict[str, Any]:
    properties = {
        "key": _of("Dotted key of the scenario, as after --set.", TEXT),
        "values": _of("Values of the key; with `zip`, labels of the steps.", VALUES),
        "range": _of("Evenly spaced values of the key.", _range()),
        "unit": _of("Unit of the values; with `key`, it is appended to each value.", {"type": "string"}),
        "name": _of("Name of the column in the table; the key by default.", TEXT),
        "zip": _of(
            "Keys that change together, with a list of values for each key.",
            {"type": "object", "minProperties": 1, "additionalProperties": VALUES},
        ),
    }
    return _table(properties, oneOf=[{"required": ["key"]}, {"required": ["zip"]}])


def _measure() -> dict[str, Any]:
    names = {"anyOf": [TEXT, {"type": "array", "items": TEXT, "minItems": 1}]}
    properties = {
        "name": _of("Name of the column in the table.", TEXT),
        "unit": _of("Unit, shown in headings.", {"type": "string"}),
        "summary": _of("Path of a number in summary.json; members of lists are found by name.", names),
        "optional": _of(
            "With `summary`: a run without this number has an empty value, not an error. Default: false.",
            {"type": "boolean"},
        ),
        "table": _of("Table of the run from which the measure is computed.", {"enum": list(TABLES)}),
        "column": _of("Column of this table; also received_gbit_s or sent_gbit_s.", TEXT),
        "of": _of("Names or patterns of flows, hosts, links or classes; all by default.", names),
        "over_time": _of("Reduction of the values of each name over time.", {"enum": list(REDUCTIONS)}),
        "across": _of(
            "Reduction of the results of all names; for the table `transfers`, of all transfers.",
            {"enum": list(dict.fromkeys([*ACROSS, *OF_TRANSFERS]))},
        ),
        "statistic": _of(
            "Reduction of all names and intervals at once, instead of the other two.",
            {"enum": list(STATISTICS)},
        ),
        "start": _of("Start of the time span; by default, the end of the warm-up.", TIME),
        "end": _of("End of the time span; by default, the end of the run.", TIME),
        "above": _of("With the table `transfers`: only transfers of more than this size.", SIZE),
        "up_to": _of("With the table `transfers`: only transfers of at most this size.", SIZE),
    }
    either = [{"required": ["summary"]}, {"required": ["table", "column"]}]
    return _table(properties, required=["name"], oneOf=either)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of study files."""
    seeds = [
        {"type": "integer", "minimum": 1, "maximum": RUNS_AT_MOST},
        {"type": "array", "items": SEED, "minItems": 1, "uniqueItems": True},
    ]
    properties = {
        "name": _of("Name of the study and of its folder; by default, the name of its file.", TEXT),
        "description": _of("Description of the study.", {"type": "string"}),
        "scenario": _of("Scenario file, relative to the study.", TEXT),
        "seeds": _of(
            "Number of seeds (1, 2, ...), or a list of seeds; by default, the scenario's seed.",
            {"anyOf": seeds},
        ),
        "keep": _of("Parts of each run to keep.", {"enum": ["tables", "summary"]}),
        "set": _of("Keys of the scenario that are set in every run.", {"type": "object"}),
        "axis": _of("Axes of the grid; the last axis changes fastest.", {"type": "array", "items": _axis()}),
        "measure": _of("Measures of each run.", {"type": "array", "items": _measure()}),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Silvan study",
        **_table(properties, required=["scenario"]),
    }
