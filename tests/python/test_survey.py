"""Tests surveys of all settings of a small space, which is extended if the best setting is at its end."""

import pytest

from silvan.sweeps.axes import Axis
from silvan.sweeps.errors import SweepError
from silvan.tuning.problem import Kind, Tuning
from silvan.tuning.survey import Survey

INCREASE, TIMER = "congestion.reaction.ccti_increase", "congestion.reaction.ccti_timer"


class Made:
    """Runs whose objectives are a function of the settings; settings in `refused` cannot be run."""

    def __init__(self, formula, refused=()):
        self.formula, self.refused, self.done = formula, refused, []

    def values(self, wanted, _note=""):
        return [self.value(setting.keys, at) for setting, at in wanted]

    def value(self, keys, at):
        if "congestion.marking.threshold" in keys:
            return 1.0, 1.0
        self.done.append((keys[INCREASE], keys[TIMER], at.kind.name))
        if keys[INCREASE] in self.refused:
            return "it is refused"
        value = self.formula(keys[INCREASE], keys[TIMER])
        return value, value


def survey(small, runs, limits):
    axes = (
        Axis("increase", "", (2, 4, 8), ((INCREASE, (2, 4, 8)),)),
        Axis("timer", "", (5, 20, 80), ((TIMER, (5, 20, 80)),)),
    )
    base = Tuning.load(small).base
    kinds = (Kind("one"), Kind("two", {"seed": 9}))
    return Survey(Tuning("survey", base, search=axes, kinds=kinds), runs, limits)


def peak(increase, timer):
    """Return a score that is best at 40 and 2."""
    return 100.0 / (1 + abs(increase - 40) + abs(timer - 2))


LIMITS = {"increase": (1, 127), "timer": (1, 65535)}


def test_an_axis_goes_on_until_the_best_has_two_sides(small):
    made = Made(peak)
    found = survey(small, made, LIMITS)
    found.run()
    best = found._best()
    assert best.setting.keys == {INCREASE: 32, TIMER: 1}
    assert found.axes[0].labels == (2, 4, 8, 16, 32, 64)
    assert found.axes[1].labels == (1, 5, 20, 80)
    assert found.tuning.search == found.axes
    for trial in found.trials:
        keys = {
            axis.settings[0][0]: axis.labels[step] for axis, step in zip(found.axes, trial.steps, strict=True)
        }
        assert keys == trial.setting.keys, "steps are those of the longer axes"
    beside = {tuple(one.setting.keys.values()): len(one.ratios) for one in found.neighbours(best)}
    assert beside == {(16, 1): 2, (64, 1): 2, (32, 5): 2}, "all in both kinds of traffic"
    assert found.end(best, 0) == ""
    assert found.end(best, 1) == "smaller values are not allowed"
    assert len(made.done) == len(set(made.done)), "nothing is tried twice"


def test_an_axis_ends_where_no_more_is_allowed_or_a_value_is_refused(small):
    found = survey(small, Made(lambda increase, timer: increase + timer / 1000), {"increase": (1, 10)})
    found.run()
    best = found._best()
    assert best.setting.keys == {INCREASE: 10, TIMER: 80}
    assert found.axes[0].labels == (2, 4, 8, 10), "the last step is to the limit"
    assert (found.end(best, 0), found.end(best, 1)) == ("larger values are not allowed", "")
    assert found.axes[1].labels == (5, 20, 80), "an axis without limits stays as it is"
    refused = survey(small, Made(lambda increase, timer: increase + timer, refused=(16,)), LIMITS)
    refused.run()
    best = refused._best()
    assert best.setting.keys[INCREASE] == 8
    assert refused.end(best, 0) == "16 is rejected"


def test_what_is_beside_any_setting_can_be_asked_for(small):
    made = Made(peak)
    found = survey(small, made, LIMITS)
    found.run()
    poor = next(one for one in found.trials if one.setting.keys == {INCREASE: 2, TIMER: 80})
    assert found.surround(poor) > 0
    beside = {tuple(one.setting.keys.values()) for one in found.neighbours(poor)}
    assert beside == {(1, 80), (4, 80), (2, 20), (2, 320)}
    assert all(len(one.ratios) == 2 for one in found.neighbours(poor))
    assert found.surround(poor) == 0


def test_where_nothing_runs_the_survey_says_why(small):
    with pytest.raises(SweepError, match="no setting could be tried: it is refused"):
        survey(small, Made(peak, refused=(2, 4, 8)), LIMITS).run()
