"""States what a mechanism of congestion management changes in the network, next to congestion control."""

from __future__ import annotations

import sys
from typing import Any

from silvan._core import Scenario, ScenarioError

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

#: Keys whose defaults depend on `congestion.mechanism`, and that affect results without congestion control.
_KEYS = (
    ("packet", "header"),
    ("flow_control", "kind"),
    ("switch", "architecture"),
    ("switch", "queues"),
    ("switch", "arbitration"),
    ("switch", "control_first"),
    ("switch", "buffer"),
    ("host", "buffer"),
)


def note(scenario: Scenario) -> str | None:
    """Return which settings the mechanism of a scenario changes, and the matching scenario without control.

    None if the mechanism changes none of them, or if the scenario is invalid without congestion control.
    """
    own = tomllib.loads(scenario.to_toml())
    mechanism = own.get("congestion", {}).get("mechanism", "none")
    if mechanism == "none":
        return None
    try:
        base = tomllib.loads(scenario.with_overrides({"congestion": {}}).to_toml())
    except ScenarioError:
        return None
    found = [
        (f"{table}.{key}", base[table].get(key), own[table][key])
        for table, key in _KEYS
        if key in own[table] and own[table][key] != base[table].get(key)
    ]
    if not found:
        return None
    changes = ", ".join(f"{key} ({_text(before)} -> {_text(after)})" for key, before, after in found)
    settings = " ".join(f'--set "{key}={_text(after)}"' for key, _, after in found)
    return (
        f"The mechanism `{mechanism}` also changes {changes}. Compare with none on the same link layer: "
        f'--set "congestion={{}}" {settings}'
    )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
