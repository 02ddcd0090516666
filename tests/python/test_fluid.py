"""Tests fluid rates of scenarios, in Python and on the command line."""

import json
import re

import pytest
from typer.testing import CliRunner

import silvan
from conftest import ROOT, SMALL
from silvan import Scenario, cli

DAMAGE = ROOT / "papers" / "A1" / "damage.toml"


def rates(report, rule):
    return [flow[rule]["gbit_s"] for flow in report["flows"]]


def patterned(pattern, more=""):
    head = SMALL[: SMALL.index("[[flow]]")]
    return Scenario.from_toml(f"{head}\n[[traffic]]\npattern = {pattern}\n{more}")


def test_figure_1_without_control_and_at_best():
    report = silvan.fluid(DAMAGE)
    assert rates(report, "uncontrolled") == pytest.approx([16 / 6] * 4 + [16 / 3] * 2)
    assert rates(report, "saa") == rates(report, "max_min") == pytest.approx([4.0] * 6)
    ends = [flow["uncontrolled"]["completed_ns"] for flow in report["flows"]]
    assert ends == [5_000_000] * 4 + [3_000_000] * 2
    assert report["uncontrolled"]["completed_ns"] == 5_000_000
    assert report["saa"]["completed_ns"] == report["max_min"]["completed_ns"] == 4_000_000
    first = report["flows"][0]
    assert first["uncontrolled"]["bottleneck"] == "sw2:5 -> d2", "a link that f1 never crosses"
    assert first["saa"]["bottleneck"] == "sw1:5 -> sw2:1"
    assert report["weights"] == "total"


def test_hosts_limits_and_caps_hold_flows_back():
    capped = Scenario.from_toml(SMALL, overrides={"flow.0.rate": "2 Gbit/s", "packet.header": "20 B"})
    flows = silvan.fluid(capped)["flows"]
    shares = [flow["max_min"] for flow in flows]
    assert shares[0]["bottleneck"] == "its own rate"
    assert shares[1]["bottleneck"] == shares[2]["bottleneck"] == "drain of H5"
    payload = 2048 / 2068
    assert [share["gbit_s"] for share in shares] == pytest.approx([2.0, 6.5 * payload, 6.5 * payload])


def test_ends_respect_starts_and_sizes():
    # F2 sends alone for 1 ms at 13 Gbit/s, and then at half that rate while F3 sends.
    totals = {"flow.1.total": "3.25 MB", "flow.2.total": "1.625 MB"}
    flows = silvan.fluid(Scenario.from_toml(SMALL, overrides=totals))["flows"]
    assert [flow["max_min"]["completed_ns"] for flow in flows] == [None, 3_000_000, 3_000_000]
    assert flows[1]["total_bytes"] == 3_250_000


def test_patterns_are_flows_of_their_own():
    shift = silvan.fluid(patterned('{ kind = "shift", by = 1 }'))
    assert [flow["flow"] for flow in shift["flows"]][:2] == ["traffic.0: H1->H2", "traffic.0: H2->H3"]
    assert rates(shift, "max_min") == pytest.approx([13.0] * 7)
    hot = silvan.fluid(patterned('{ kind = "hotspots", to = ["H1"] }', 'hosts = ["H1", "H2", "H5"]'))
    assert rates(hot, "uncontrolled") == pytest.approx([6.5, 6.5])


def test_a_permutation_is_the_one_that_a_run_draws():
    scenario = patterned('{ kind = "permutation" }', 'rate = "1 Gbit/s"')
    receivers = {flow["to"] for flow in silvan.fluid(scenario)["flows"]}
    assert len(receivers) == 7
    only = scenario.with_overrides({"traffic.0.hosts": ["H3"]})
    (flow,) = silvan.fluid(only)["flows"]
    received = {host["host"]: host["received_gbit_s"] for host in silvan.run(only).summary["hosts"]}
    assert [host for host, rate in received.items() if rate] == [flow["to"]]


@pytest.mark.parametrize("pattern", ['{ kind = "uniform" }', '{ kind = "all-to-all" }'])
def test_patterns_without_lasting_flows_are_refused(pattern):
    with pytest.raises(
        silvan.ScenarioError, match=r"traffic\.0\.pattern\.kind.*destination for each message"
    ):
        silvan.fluid(patterned(pattern))


def test_switches_that_are_not_modelled_leave_a_note():
    report = silvan.fluid(DAMAGE, switch__architecture="iq")
    assert report["uncontrolled"] is None
    assert report["flows"][0]["uncontrolled"] is None
    assert "switch.architecture" in report["uncontrolled_missing"]
    assert silvan.fluid(DAMAGE)["uncontrolled_missing"] is None


def test_the_command_prints_rates():
    done = CliRunner().invoke(cli.application(), ["check", "--fluid", str(DAMAGE)])
    assert done.exit_code == 0, done.output
    assert "no control: 21.333 Gbit/s in all, the last total sent after 5 ms" in done.output
    assert re.search(r"f1 +s1 +d1 +sw2:5 -> d2 +2\.667 +5 ms", done.output)
    assert "SAA: 24.000 Gbit/s in all, the last total sent after 4 ms" in done.output
    answer = json.loads(
        CliRunner().invoke(cli.application(), ["check", "--fluid", "--json", str(DAMAGE)]).output
    )
    assert answer["fluid"] == silvan.fluid(DAMAGE)
    assert "fluid" not in json.loads(
        CliRunner().invoke(cli.application(), ["check", "--json", str(DAMAGE)]).output
    )


def test_the_command_sums_up_many_flows():
    text = '{ kind = "hotspots", to = ["H1"] }'
    tree = {"topology": {"kind": "k-ary-n-tree", "k": 4, "n": 3, "link_rate": "16 Gbit/s"}}
    report = silvan.fluid(patterned(text).with_overrides(tree))
    assert len(report["flows"]) == 63
    far = report["flows"][-1]["uncontrolled"]["gbit_s"]
    assert far == pytest.approx(13 / 768)
