"""Other networks and packets: no mechanism and MVCM (MVCM paper, 5.1 and figures 7a to 7c)."""

from silvan.papers import common, figures

mvcm = common("mvcm")

TABLES = ("classes",)
NAMES = ("none", "MVCM")
#: The networks of figures 7a to 7c.
PANELS = {
    "4-ary 4-fly": {"stages": 4},
    "4-ary 3-fly": {"stages": 3},
    "8-ary 3-fly": {"stages": 3, "radix": 8},
}
#: Networks with one-way links and, on the 4-ary 4-fly, packets of other sizes. The paper names them but has
#: no figures of them.
BUTTERFLIES = {
    f"{radix}-ary {stages}-fly, one-way": {"stages": stages, "radix": radix, "one_way": True}
    for radix, stages in ((2, 5), (2, 6), (2, 7), (4, 3), (4, 4))
}
PAYLOADS = {
    "512 B": {"stages": 4, "payload": (512, 512), "buffer_kib": 2},
    "1024 B": {"stages": 4, "payload": (1024, 1024), "buffer_kib": 4},
    "256 to 1024 B": {"stages": 4, "payload": (256, 1024), "buffer_kib": 3},
}
CASES = {**PANELS, **BUTTERFLIES, **PAYLOADS}
#: Hosts send at the rate of M1, so the hot senders together offer twice the rate of the link to the hot host.
HOST_RATE = mvcm.MEDIUM / 4
HOT_HOSTS = 18
#: Packets that are received before the hot phase, and simulated cycles of the hot phase, by whether runs are
#: quick.
START_AFTER = {False: 50_000, True: 4_000}
HOT_CYCLES = {False: 1_500_000, True: 250_000}


def _case(quick, name):
    changes = CASES[name]
    of = mvcm.case(quick, **changes, load=HOST_RATE * changes.get("radix", 4), start_after=START_AFTER[quick])
    of = mvcm.replace(of, share=HOT_HOSTS / of.hosts)
    # The time that cold hosts need for the packets before the hot phase.
    packet = of.mean_payload + mvcm.HEADER
    cold = START_AFTER[quick] * packet / ((of.hosts - HOT_HOSTS) * of.host_rate)
    return mvcm.replace(of, duration=round(1.1 * cold / of.interval) * of.interval + HOT_CYCLES[quick])


def runs(quick):
    every = {}
    for case in CASES:
        of = _case(quick, case)
        every |= {f"{case} {name}": run for name, run in mvcm.runs(of, NAMES).items()}
    return every


def compare(results):
    ratio = {}
    for case in CASES:
        of = _case(results.quick, case)
        peak = {name: mvcm.peak(results[f"{case} {name}"], of) for name in NAMES}
        ratio[case] = peak["MVCM"] / peak["none"]
    return {
        **{case.replace(" ", "_").replace("-", "_"): ratio[case] for case in PANELS},
        "butterflies": max(ratio[case] for case in BUTTERFLIES),
        "payloads": max(ratio[case] for case in PAYLOADS),
    }


def plot(results, out):
    fig, axes = figures.figure(columns=3, size=(4.8, 3.6))
    for ax, case in zip(axes, PANELS, strict=True):
        of = _case(results.quick, case)
        own = {name: results[f"{case} {name}"] for name in NAMES}
        mvcm.draw_latency(ax, own, of, case)
        ax.set_yscale("log")
        ax.legend(frameon=False)
    figures.save(fig, out, "M10")
