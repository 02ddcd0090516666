"""Completion of superposed permutations, with and without rates and routes (SYSTOR 2009, figure 6)."""

from silvan.papers import common, figures

phases = common("phases")

TABLES = ()


def permutations(quick):
    return (1, 3, 5) if quick else (1, 2, 3, 4, 5)


def runs(quick):
    return {
        f"{scheme} {count}": phases.run(scheme, count, quick)
        for count in permutations(quick)
        for scheme in phases.SCHEMES
    }


def compare(results):
    counts = permutations(results.quick)
    time = {key: phases.completion(run) for key, run in results.items()}

    def over(scheme):
        return {count: time[f"{scheme} {count}"] / time[f"NC {count}"] for count in counts}

    saa, routed, both = over("SAA"), over("AR"), over("SAA+AR")
    return {
        "saa_best": min(saa.values()),
        "saa_worst": max(saa.values()),
        "ar_many": min(ratio for count, ratio in routed.items() if count >= 3),
        "both_1": both[1],
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
