"""Tests of jobs whose pairs of ranks have several queue pairs."""

import pytest

import silvan

MTU, HEADER = 4096, 64
PART = 64 * MTU

# Four links of 10 Gbit/s connect two switches.
SCENARIO = f"""
duration = "1 s"
[topology]
kind = "custom"
link_rate = "10 Gbit/s"
link_delay = "1 ns"
hosts = ["a", "b"]
switches = [{{ name = "left", ports = 5 }}, {{ name = "right", ports = 5 }}]
links = [
  {{ from = "a", to = "left:5", rate = "80 Gbit/s" }},
  {{ from = "b", to = "right:5", rate = "80 Gbit/s" }},
  {{ from = "left:1", to = "right:1" }},
  {{ from = "left:2", to = "right:2" }},
  {{ from = "left:3", to = "right:3" }},
  {{ from = "left:4", to = "right:4" }},
]
[packet]
mtu = "{MTU} B"
header = "{HEADER} B"
[ecmp]
[[job]]
program = {{ kind = "trace", file = "copy.goal" }}
"""


def run(folder, sends, changes=(), **pairs):
    """Return the job's summary, and its time relative to that of a part on one link."""
    lines = [f"s{at}: send {size}b to 1 tag {at}" for at, size in enumerate(sends)]
    receives = [f"r{at}: recv {size}b from 0 tag {at}" for at, size in enumerate(sends)]
    text = "num_ranks 2\nrank 0 {\n%s\n}\nrank 1 {\n%s\n}\n"
    (folder / "copy.goal").write_text(text % ("\n".join(lines), "\n".join(receives)))
    changes = dict(changes) | ({"job.0.queue_pairs": pairs} if pairs else {})
    path = folder / "copy.toml"
    path.write_text(SCENARIO)
    (job,) = silvan.run(silvan.Scenario.load(path, changes)).summary["jobs"]
    return job, job["span_ns"] / (PART * (1 + HEADER / MTU) * 8 / 10)


def test_a_message_uses_as_many_links_as_its_queue_pairs_reach(tmp_path):
    _, one = run(tmp_path, [16 * PART])
    assert one == pytest.approx(16, rel=0.001), "all packets use one link"
    _, split = run(tmp_path, [16 * PART], count=16, split=True)
    # The most loaded link carries a whole number of the 16 parts.
    assert split == pytest.approx(round(split), rel=0.01)
    assert 4 <= round(split) <= 10
    _, in_turn = run(tmp_path, [PART] * 16, count=16)
    assert in_turn == pytest.approx(split, rel=0.01), "the same flows carry a message each"
    _, alone = run(tmp_path, [16 * PART], count=16)
    assert alone == pytest.approx(16, rel=0.001), "one message uses one of the queue pairs"


def test_each_pair_of_ranks_uses_its_queue_pairs_in_turn(tmp_path):
    to_b = [f"s{at}: send {PART}b to 1 tag {at}" for at in range(0, 16, 2)]
    to_c = [f"s{at}: send {PART}b to 2 tag {at}" for at in range(1, 16, 2)]
    sends = [line for pair in zip(to_b, to_c, strict=True) for line in pair]
    receives = [[f"r{at}: recv {PART}b from 0 tag {at}" for at in range(first, 16, 2)] for first in (0, 1)]
    ranks = ["\n".join(lines) for lines in (sends, *receives)]
    text = "num_ranks 3\n" + "".join(f"rank {rank} {{\n{lines}\n}}\n" for rank, lines in enumerate(ranks))
    (tmp_path / "copy.goal").write_text(text)
    path = tmp_path / "copy.toml"
    third = '{ from = "c", to = "right:6", rate = "80 Gbit/s" },\n]\n[packet]'
    scenario = SCENARIO.replace('"b"]', '"b", "c"]').replace('"right", ports = 5', '"right", ports = 6')
    path.write_text(scenario.replace("]\n[packet]", third))
    times = []
    for seed in range(8):
        changes = {"seed": seed, "job.0.queue_pairs": {"count": 2}}
        (job,) = silvan.run(silvan.Scenario.load(path, changes)).summary["jobs"]
        times.append(job["span_ns"] / (PART * (1 + HEADER / MTU) * 8 / 10))
    # If the messages of a rank were counted, all messages to another rank would use one queue pair.
    assert min(times) == pytest.approx(4, rel=0.02), "four queue pairs on four links"


def test_an_explanation_names_the_other_queue_pairs_of_a_message(tmp_path):
    run(tmp_path, [16 * PART], count=4, split=True)
    path = tmp_path / "copy.toml"
    changes = {"job.0.queue_pairs": {"count": 4, "split": True}}
    result = silvan.run(silvan.Scenario.load(path, changes))
    text = str(silvan.why(result)[0])
    assert text.startswith("The message of 4.194 MB of job.0 (a->b)"), text
    # Three of the four parts use the same link.
    assert "(a hash collision)" in text
    assert "job.0 (a->b), other queue pairs" in text


def test_messages_of_the_same_time_are_explained_by_their_parts(tmp_path):
    run(tmp_path, [4 * PART, 4 * PART], count=4, split=True)
    changes = {"job.0.queue_pairs": {"count": 4, "split": True}}
    result = silvan.run(silvan.Scenario.load(tmp_path / "copy.toml", changes))
    (found,) = silvan.why(result)
    assert found.explanation.subject.bytes == PART
    assert "other queue pairs" in str(found)


def test_results_count_messages_and_not_their_parts(tmp_path):
    job, _ = run(tmp_path, [PART, PART + 1, 1], count=3, split=True)
    assert (job["messages"], job["bytes"]) == (3, 2 * PART + 2)
    assert job["unfinished_operations"] == 0
    # Messages on the crossbar use all links.
    assert job["crossbar_ns"] == pytest.approx(2 * PART * (1 + HEADER / MTU) * 8 / 40, rel=0.03)
    assert job["message_slowdown_mean"] >= 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"job.0.queue_pairs": {"count": 0}}, r"queue_pairs.count = 0: must be 1 to 64"),
        ({"job.0.queue_pairs": {"count": 65}}, r"queue_pairs.count = 65: must be 1 to 64"),
        ({"job.0.queue_pairs": {"count": 1, "split": True}}, r"has no effect with one queue pair"),
        (
            {"job.0.queue_pairs": {"count": 2, "split": True}, "job.0.sends": "sequential"},
            r'cannot be combined with sends = "sequential"',
        ),
    ],
)
def test_settings_without_effect_or_sense_are_refused(tmp_path, changes, message):
    with pytest.raises(silvan.SilvanError, match=message):
        run(tmp_path, [PART], changes)
