"""Which packets are marked (MVCM paper, figure 10)."""

from silvan.papers import common, figures

mvcm = common("mvcm")

TABLES = ("classes",)
#: Kinds of packets to which the mechanisms react.
COLUMN = {"Renato": "marked", "Pfister": "marked", "MVCM": "validated"}
PUBLISHED_COLD = {"Renato": 11.0, "Pfister": 5.0, "MVCM": 0.1}


def runs_of_seed(quick, n):
    """Return the runs of M1 with a mechanism; each seed selects new hot hosts."""
    return mvcm.runs(mvcm.case(quick, draw=n), COLUMN)


def runs(quick):
    return runs_of_seed(quick, 0)


def _shares(results, name):
    return {key: mvcm.share(results[key], name, column) for key, column in COLUMN.items()}


def compare(results):
    cold, hot = _shares(results, "cold"), _shares(results, "hot")
    return {
        **{f"cold_{name}": cold[name] for name in COLUMN},
        "cold_Pfister_over_Renato": cold["Pfister"] / cold["Renato"],
        "cold_MVCM_over_Pfister": cold["MVCM"] / cold["Pfister"],
        "hot_Pfister_over_MVCM": hot["Pfister"] / hot["MVCM"],
        "hot_MVCM_over_Renato": hot["MVCM"] / hot["Renato"],
        "hot_over_cold_MVCM": hot["MVCM"] / cold["MVCM"],
    }


def plot(results, out):
    fig, (cold, hot) = figures.figure(columns=2)
    own = _shares(results, "cold")
    names = list(COLUMN)
    figures.beside(cold, names, list(PUBLISHED_COLD.values()), [own[name] for name in names])
    cold.set(ylabel="marked packets (%)", title="cold flows")
    own = _shares(results, "hot")
    hot.bar(names, [own[name] for name in names], color=figures.COLOURS[0])
    hot.set(ylabel="marked packets (%)", title="hot flows")
    figures.save(fig, out, "M2")
