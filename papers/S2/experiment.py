"""Completion of superposed permutations, with and without rates and routes (SYSTOR 2009, figure 6)."""

from silvan.papers import common, figures

phases = common("phases")

TABLES = ()
#: Draws of a single permutation for each seed. The published averages cover 50 runs: five seeds of ten draws.
DRAWS = 10
#: Distance between the seeds of two draws.
APART = 1000
#: The schemes that are compared over all draws.
OVER_DRAWS = ("NC", "SAA+AR")


def permutations(quick):
    return (1, 3, 5) if quick else (1, 2, 3, 4, 5)


def runs(quick):
    found = {
        f"{scheme} {count}": phases.run(scheme, count, quick)
        for count in permutations(quick)
        for scheme in phases.SCHEMES
    }
    for draw in further_draws(quick):
        for scheme in OVER_DRAWS:
            scenario, own = phases.run(scheme, 1, quick)
            found[f"{scheme} 1, draw {draw}"] = scenario, {**own, "seed": APART * draw + 1}
    return found


def further_draws(quick):
    return () if quick else range(1, DRAWS)


def _mean_time(time, scheme, quick):
    """Return the mean completion time of one permutation over all draws of a seed."""
    names = [f"{scheme} 1", *(f"{scheme} 1, draw {draw}" for draw in further_draws(quick))]
    return sum(time[name] for name in names) / len(names)


def compare(results):
    counts = permutations(results.quick)
    time = {key: phases.completion(run) for key, run in results.items()}

    def over(scheme):
        return {count: time[f"{scheme} {count}"] / time[f"NC {count}"] for count in counts}

    mean = {scheme: _mean_time(time, scheme, results.quick) for scheme in OVER_DRAWS}
    saa, routed, both = over("SAA"), over("AR"), over("SAA+AR")
    return {
        "saa_best": min(saa.values()),
        "saa_worst": max(saa.values()),
        "ar_many": min(ratio for count, ratio in routed.items() if count >= 3),
        "both_1": mean["SAA+AR"] / mean["NC"],
        "both_best": min(both.values()),
        "both_worst": max(both.values()),
        "both_against_parts": max(both[count] / min(saa[count], routed[count]) for count in counts),
    }


def plot(results, out):
    counts = permutations(results.quick)
    fig, (ax,) = figures.figure()
    for scheme, colour in zip(phases.SCHEMES, figures.COLOURS, strict=False):
        times = [phases.completion(results[f"{scheme} {count}"]) for count in counts]
        ax.plot(counts, times, "o-", color=colour, label=scheme)
    ax.set(xlabel="permutations", ylabel="completion, in times of a flow alone", xticks=counts)
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False)
    figures.save(fig, out, "S2")
