"""One component at a time: validation, warm packets, limit of slots (MVCM paper, figures 12 to 14, 16)."""

from silvan.papers import common, figures

mvcm = common("mvcm")

TABLES = ("classes", "hosts")
MVPM = {"congestion.marking": {"kind": "mvpm"}}
ABLATIONS = {
    # An output validates if it holds any packet, so all packets that inputs mark count as hot.
    "MVCM on input marks": {**mvcm.MVCM, "congestion.marking": {"kind": "mvpm", "output_percent": 1}},
    "MVCM on IPM": {**mvcm.MVCM, "congestion.marking": {"kind": "ipm"}},
    "MVCM without warm": {**mvcm.MVCM, "congestion.reaction.warm": False},
    "MVCM without limit": {**mvcm.MVCM, "congestion.reaction.limited": False},
}


#: Bytes per cycle of the wide links in section 4.3.
WIDE = 16
#: A length of waiting slots that has no effect.
NO_SLOTS = {"congestion.reaction.slot": "1 ps"}


def _wide(quick):
    """Return the case with wide links, whose hosts send at the same share of the rate of a link."""
    of = mvcm.case(quick)
    shorter = {name: getattr(of, name) // WIDE for name in ("duration", "interval", "window")}
    return mvcm.replace(of, load=of.load * WIDE, **shorter)


def _runs_of_wide(quick):
    of = _wide(quick)
    links = {**mvcm.MVCM, "topology.link_rate": f"{WIDE} bytes/cycle"}
    return {"wide": of.run(links), "wide, windows alone": of.run({**links, **NO_SLOTS})}


def runs(quick):
    of = mvcm.case(quick)
    own = mvcm.runs(of, ("Pfister", "MVCM"))
    own["Pfister on validated"] = of.run({**mvcm.pfister(of), **MVPM})
    own |= {name: of.run(changes) for name, changes in ABLATIONS.items()}
    own |= _runs_of_wide(quick)
    return {name: (path, {**changes, "measure.hosts": True}) for name, (path, changes) in own.items()}


def compare(results):
    of = mvcm.case(results.quick)
    wide = {name: run for name, run in results.items() if name.startswith("wide")}
    slots = [mvcm.peak(run, _wide(results.quick)) for run in wide.values()]
    results = {name: run for name, run in results.items() if name not in wide}
    peak = {name: mvcm.peak(run, of) for name, run in results.items()}
    deviation = {name: mvcm.deviation(run, of) for name, run in results.items()}
    mean = {name: mvcm.cold_mean(run, of) for name, run in results.items()}
    gaps = {name: mvcm.gaps(run, of) for name, run in results.items()}
    silence = {name: mvcm.longest_silence(run, of) for name, run in results.items()}
    return {
        "validated_peak": peak["Pfister on validated"] / peak["Pfister"],
        "validated_swing": deviation["Pfister on validated"] / deviation["Pfister"],
        "input_peak": peak["MVCM on input marks"] / peak["MVCM"],
        "input_mean": mean["MVCM on input marks"] / mean["MVCM"],
        "IPM_mean": mean["MVCM on IPM"] / mean["MVCM"],
        "input_swing": deviation["MVCM on input marks"] / deviation["MVCM"],
        "warm_peak": peak["MVCM without warm"] / peak["MVCM"],
        "warm_mean": mean["MVCM without warm"] / mean["MVCM"],
        "limit_silence": silence["MVCM without limit"] / silence["MVCM"],
        "limit_gaps": 100 * (gaps["MVCM without limit"] - gaps["MVCM"]),
        "Pfister_gaps": 100 * (gaps["Pfister"] - gaps["MVCM"]),
        "wide_slots": slots[1] / slots[0],
    }


def plot(results, out):
    of = mvcm.case(results.quick)
    fig, axes = figures.figure(columns=3, rows=3, size=(4.8, 3.2))
    cold = ("Pfister", "Pfister on validated", "MVCM on input marks")
    for above, below, name in zip(axes[:3], axes[3:6], cold, strict=True):
        mvcm.draw_latency(above, {name: results[name]}, of, name)
        mvcm.draw_throughput(below, {name: results[name]}, of, "")
    warm = mvcm.ordered(results, ("MVCM", "MVCM without warm"))
    mvcm.draw_latency(axes[6], warm, of, "warm packets")
    axes[6].legend(frameon=False, fontsize="small")
    limited = mvcm.ordered(results, ("MVCM", "MVCM without limit", "Pfister"))
    mvcm.draw_latency(axes[7], limited, of, "the limit of slots", "hot")
    axes[7].legend(frameon=False, fontsize="small")
    for n, run in enumerate(limited.values()):
        hot = mvcm.series(run, "hot", of.interval)
        axes[8].plot(hot.end_cycles / 1e3, hot.bytes_per_cycle, linewidth=0.9, color=figures.COLOURS[n])
        axes[8].set(title="hot flows", xlabel="time (1000 cycles)", ylabel="bytes/cycle")
    figures.save(fig, out, "M6")
