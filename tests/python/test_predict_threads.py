"""The prediction of the speed of many threads, from recorded work."""

import json

import pytest

import predict_threads
from conftest import script
from predict_threads import Exchange, predict

FREE = Exchange(0, 0)


def test_a_step_takes_as_long_as_its_slowest_partition():
    work = [[30, 10], [10, 30]]
    all_talk = [[0, 2], [2, 0]]
    found = predict(80, work, all_talk, FREE)
    assert (found.steps, found.threads, found.imbalance) == (2, 2, 1.0)
    assert found.ideal == found.barrier == found.neighbors == pytest.approx(80 / 60)


def test_partitions_that_receive_nothing_do_not_wait():
    found = predict(80, [[30, 10], [10, 30]], [[0, 0], [0, 0]], FREE)
    assert found.neighbors == pytest.approx(80 / 40)
    # The second waits for the first, but not the reverse.
    found = predict(80, [[30, 10], [10, 30]], [[0, 1], [0, 0]], FREE)
    assert found.neighbors == pytest.approx(80 / 60)
    assert found.senders == 0.5


def test_an_exchange_costs_more_with_more_threads():
    cost = Exchange(wait_ns=100, mailbox_ns=10)
    two = predict(1_000, [[500, 500]], [[0, 1], [1, 0]], cost)
    assert two.barrier == pytest.approx(1_000 / (500 + 100 + 10))
    four = predict(1_000, [[250] * 4], [[0] * 4] * 4, cost)
    assert four.barrier == pytest.approx(1_000 / (250 + 200 + 30))
    assert four.neighbors == pytest.approx(1_000 / (250 + 50))


def test_events_take_as_long_as_with_one_partition():
    assert predict(8_000, [[3, 1], [3, 1]], [[0, 2], [2, 0]], FREE).ideal == pytest.approx(8 / 6)
    assert predict(8_000, [[3, 1], [3, 1]], [[0, 2], [2, 0]], FREE).imbalance == 1.5


def test_the_fastest_run_counts(tmp_path, capsys):
    bench = script(
        tmp_path / "bench",
        'case "$1" in',
        """--exchange) echo '{"wait_ns": 100, "mailbox_ns": 0}' ;;""",
        f"--one) if [ -e {tmp_path}/seen ]; then wall=4e-7; else wall=1; fi; touch {tmp_path}/seen",
        """  echo "{\\"wall_s\\": $wall}" ;;""",
        """--steps) echo '{"events": [[2, 2]], "mail": [[0, 1], [1, 0]]}' ;;""",
        "esac",
    )
    out = tmp_path / "threads.json"
    words = ["case", "--threads", "2", "--bench", str(bench), "--json", str(out)]
    assert predict_threads.main(words) == 0
    found = json.loads(out.read_text())["case"][0]
    assert (found["ideal"], found["barrier"]) == (pytest.approx(2.0), pytest.approx(4 / 3))
    assert "1.33" in capsys.readouterr().out
