"""Tests that the declared types of dictionaries match the keys and types of real results."""

import types
import typing
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import pytest

import silvan
from conftest import FABRICS, ROOT, SMALL

HPCC = ROOT / "tests" / "data" / "traces" / "hpcc-8"
LANES = ROOT / "tests" / "data" / "lanes"


def mismatches(value: object, kind: Any, where: str = "") -> list[str]:
    """Return where a value differs from its declared type, in keys or in types of values."""
    container = dict if is_typeddict(kind) else get_origin(kind)
    if container in (list, dict) and not isinstance(value, container):
        return [f"{where}: {value!r} is not a {container.__name__}"]
    if is_typeddict(kind):
        found = [f"{where}.{key}: missing" for key in sorted(kind.__required_keys__ - value.keys())]
        hints = get_type_hints(kind)
        for key, item in value.items():
            found += (
                mismatches(item, hints[key], f"{where}.{key}") if key in hints else [f"{where}.{key}: new"]
            )
        return found
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is list:
        return [line for item in value for line in mismatches(item, arguments[0], f"{where}[]")]
    if origin is dict:
        return [line for item in value.values() for line in mismatches(item, arguments[1], where)]
    if origin in (types.UnionType, typing.Union):
        return min((mismatches(value, one, where) for one in arguments), key=len)
    wanted = (int, float) if kind is float else kind
    fits = isinstance(value, wanted) and not (isinstance(value, bool) and kind is not bool)
    return [] if fits else [f"{where}: {value!r} is not {kind}"]


def keys(value: object, kind: Any) -> set[str]:
    """Return the declared keys that a value contains at any depth, as `Type.key`."""
    found: set[str] = set()
    if is_typeddict(kind) and isinstance(value, dict):
        hints = get_type_hints(kind)
        for key, item in value.items():
            found |= {f"{kind.__name__}.{key}"} | keys(item, hints[key])
    for argument in get_args(kind):
        for item in value if isinstance(value, list) else [value]:
            found |= keys(item, argument)
    return found


def short(name: str, **more: object) -> silvan.Result:
    duration = {"duration": "200 us", "warmup": "0 ns", "measure__interval": "20 us"}
    return silvan.run(name, **{**duration, **more})


@pytest.fixture(scope="module")
def summaries() -> list[Any]:
    found = [silvan.run(silvan.Scenario.from_toml(SMALL)).summary]
    found.append(silvan.run("two-jobs", alone=True).summary)
    found += [
        short(name).summary for name in ("packets-64", "mvcm-hot-phase", "silent-forest", "ecocc-trees")
    ]
    found.append(short("routes-512").summary)
    logs = {"congestion.mechanism": "ib-cc", "measure.congestion_log": "true"}
    logs["congestion.reaction.trigger_threshold"] = "1"
    found.append(silvan.run(silvan.Scenario.from_toml(SMALL, overrides=logs)).summary)
    found.append(short("roce-dcqcn", flow_control={"kind": "pfc"}).summary)
    retry = {"flow_control": {"kind": "credits"}, "link": {"error_rate_ppb": 1_000_000, "retry": {}}}
    found.append(short("roce-dcqcn", **retry).summary)
    found.append(short("gpu-rails").summary)
    repeated = {"job.0.program.iterations": 6, "measure__interval": "2 ms", "engine": {"skip": True}}
    found.append(short("gpu-rails", duration="2 ms", **repeated).summary)
    found.append(short("uec-trimming", duration="20 us").summary)
    acked = {"measure.transfers": "true", "congestion.notification": "ack-each"}
    found.append(silvan.run(silvan.Scenario.from_toml(SMALL, overrides=acked)).summary)
    down = {"event": [{"kind": "down", "links": ["H1"], "start": "5 us", "lasts": "5 us"}]}
    down["recovery"] = {"kind": "selective-repeat", "timeout": "20 us"}
    found.append(short("roce-dcqcn", congestion={"mechanism": "none"}, **down).summary)
    return found


def test_summaries_are_as_declared(summaries):
    for summary in summaries:
        assert mismatches(summary, silvan.types.Summary) == []


def test_every_optional_key_of_a_summary_is_there_in_one_of_them(summaries):
    seen = set().union(*(keys(summary, silvan.types.Summary) for summary in summaries))
    optional = {f"Summary.{key}" for key in silvan.types.Summary.__optional_keys__}
    assert optional <= seen


def test_provenance_is_as_declared(result, tmp_path):
    assert mismatches(result.provenance, silvan.types.Provenance) == []
    again = silvan.load(result.save(tmp_path / "run"))
    assert again.provenance == result.provenance


def test_checks_of_scenarios_are_as_declared():
    names = ("two-jobs", "silent-forest", "hot-phase", "pfc-victim")
    checks = [silvan.scenarios.load(name).check() for name in names]
    scaled = {"congestion": {"mechanism": "dcqcn"}, "flow_control.shared": {}}
    checks.append(silvan.scenarios.load("pfc-victim").with_overrides(scaled).check())
    for check in checks:
        assert mismatches(check, silvan.types.ScenarioCheck) == []
    seen = set().union(*checks)
    assert silvan.types.ScenarioCheck.__optional_keys__ <= seen


@pytest.mark.parametrize("name", ["testbed", "uniform-648"])
def test_fluid_rates_are_as_declared(name):
    scenario = silvan.scenarios.load(name)
    if name == "uniform-648":
        with pytest.raises(silvan.ScenarioError):
            silvan.fluid(scenario)
        return
    assert mismatches(silvan.fluid(scenario), silvan.types.Fluid) == []


def test_checks_of_fabrics_are_as_declared():
    folders = [FABRICS / "sw2-h7" / "updn", *sorted(LANES.glob("*/*"))[:3]]
    found = [silvan.fabric.check(folder) for folder in folders]
    for check in found:
        assert mismatches(check, silvan.types.FabricCheck) == []
    assert any(check["lanes"] for check in found)


def test_collisions_are_as_declared():
    found = silvan.fabric.collide(
        ROOT / "scenarios" / "torus-64.toml", pattern="shift", distance=3, tries=50, ranks=16
    )
    assert mismatches(found, silvan.types.Collisions) == []
    spread = silvan.fabric.collide(
        FABRICS / "ft2-36p-h648" / "ftree",
        pattern="shift",
        distance=3,
        ranks=64,
        placement="round-robin",
        tries=50,
    )
    assert mismatches(spread, silvan.types.Collisions) == []


def test_inferences_are_as_declared(tmp_path):
    run = silvan.run(ROOT / "scenarios" / "pfc-victim.toml", duration="1 ms", warmup="0 s")
    (tmp_path / "counters.csv").write_bytes(silvan.counters(run).csv(1_000_000))
    found = silvan.fabric.infer(ROOT / "scenarios" / "pfc-victim.toml", after=tmp_path / "counters.csv")
    assert mismatches(found, silvan.types.Inference) == []
    assert found["roots"]
    assert found["forward"]


def test_traces_are_as_declared(tmp_path):
    trace = HPCC / "mpifft-8ranks.txt.gz"
    assert mismatches(silvan.traces.check(trace), silvan.types.TraceCheck) == []
    written = silvan.traces.convert(trace, tmp_path / "out.goal")
    assert mismatches(written, silvan.types.WrittenTrace) == []
    stuck = tmp_path / "stuck.goal"
    stuck.write_text("num_ranks 2\nrank 0 {\na: recv 8b from 1\n}\nrank 1 {\n}\n")
    assert mismatches(silvan.traces.check(stuck), silvan.types.TraceCheck) == []


def test_every_key_says_what_it_is():
    """Each class has a docstring, and each key has a comment unless its name and type are sufficient."""
    files = sorted((ROOT / "python" / "silvan" / "types").glob("*.py"))
    source = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    for n, line in enumerate(source):
        if line.startswith("class ") and not line.startswith("class _"):
            assert source[n + 1].startswith('    """'), line
    for ending in ("_ns", "_ps", "_gbit_s", "_bytes", "_share"):
        unit = {"_ns": "ns", "_ps": "ps", "_gbit_s": "Gbit/s", "_bytes": "bytes", "_share": "0 to 1"}[ending]
        for n, line in enumerate(source):
            if line.startswith("    ") and line.split(":")[0].endswith(ending):
                start = next(m for m in range(n - 1, 0, -1) if not source[m].startswith("    #: "))
                comment = " ".join(source[start + 1 : n])
                assert unit in comment, f"{line.strip()}: its comment does not state the unit {unit}"
