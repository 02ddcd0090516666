"""The prediction of the speed of many threads, from recorded work."""

import json

import pytest

import predict_threads
from conftest import script
from predict_threads import Exchange, Log, predict

FREE = Exchange(0, 0, 0)
PAIR = [[1], [0]]


def test_a_step_takes_as_long_as_its_slowest_partition():
    found = predict(80, Log(events=[[30, 10], [10, 30]], rounds=[1, 1], neighbors=PAIR), FREE)
    assert (found.steps, found.threads, found.imbalance, found.meetings) == (2, 2, 1.0, 2)
    assert found.ideal == found.barrier == found.steps_and_meetings == pytest.approx(80 / 60)


def test_partitions_wait_only_for_neighbors_between_meetings():
    events = [[30, 10, 20], [10, 30, 20]]
    alone = predict(120, Log(events=events, rounds=[2], neighbors=[[], [], []]), FREE)
    assert alone.steps_and_meetings == pytest.approx(120 / 40)
    # The third partition has no neighbors.
    chain = predict(120, Log(events=events, rounds=[2], neighbors=[[1], [0], []]), FREE)
    assert chain.steps_and_meetings == pytest.approx(120 / 60)
    assert chain.neighbors == pytest.approx(2 / 3)
    # The first step of a partition affects only the second step of its neighbor.
    late = [[30, 10, 10], [10, 10, 10]]
    far = predict(80, Log(events=late, rounds=[2], neighbors=[[1], [0, 2], [1]]), FREE)
    assert far.steps_and_meetings == pytest.approx(80 / 40)


def test_a_meeting_costs_more_with_more_threads():
    cost = Exchange(wait_ns=100, mailbox_ns=10, counter_ns=20)
    two = predict(1_000, Log(events=[[500, 500]], rounds=[1], neighbors=PAIR), cost)
    assert two.barrier == two.steps_and_meetings == pytest.approx(1_000 / (500 + 100 + 10))
    ring = [[1, 3], [0, 2], [1, 3], [0, 2]]
    four = predict(1_000, Log(events=[[125] * 4] * 2, rounds=[2], neighbors=ring), cost)
    assert four.barrier == pytest.approx(1_000 / (250 + 2 * (140 + 30)))
    assert four.steps_and_meetings == pytest.approx(1_000 / (250 + 140 + 120 + 2 * 20))


def test_events_take_as_long_as_with_one_partition():
    found = predict(8_000, Log(events=[[3, 1], [3, 1]], rounds=[1, 1], neighbors=PAIR), FREE)
    assert (found.ideal, found.imbalance) == (pytest.approx(8 / 6), 1.5)


def test_the_fastest_run_counts(tmp_path, capsys):
    bench = script(
        tmp_path / "bench",
        'case "$1" in',
        """--exchange) echo '{"wait_ns": 100, "mailbox_ns": 0, "counter_ns": 0}' ;;""",
        f"--one) if [ -e {tmp_path}/seen ]; then wall=4e-7; else wall=1; fi; touch {tmp_path}/seen",
        """  echo "{\\"wall_s\\": $wall}" ;;""",
        """--steps) echo '{"events": [[2, 2]], "rounds": [1], "neighbors": [[1], [0]]}' ;;""",
        "esac",
    )
    out = tmp_path / "threads.json"
    words = ["case", "--threads", "2", "--bench", str(bench), "--json", str(out)]
    assert predict_threads.main(words) == 0
    found = json.loads(out.read_text())["case"][0]
    assert (found["ideal"], found["barrier"]) == (pytest.approx(2.0), pytest.approx(4 / 3))
    assert "1.33" in capsys.readouterr().out
