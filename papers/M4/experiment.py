"""Latency against accepted traffic (MVCM paper, figure 9a)."""

from silvan.papers import common, figures

mvcm = common("mvcm")

TABLES = ("classes",)
NAMES = ("Renato", "Pfister", "MVCM")
PUBLISHED = (mvcm.LOW, mvcm.MEDIUM, mvcm.HIGH)
#: A load above the published ones, at which Renato's mechanism does not accept all offered traffic.
BEYOND = 1.0


def _loads(quick):
    return (*PUBLISHED, BEYOND) if quick else (mvcm.LOW, 0.35, mvcm.MEDIUM, mvcm.HIGH, BEYOND)


def _case(quick, load):
    return mvcm.case(quick, load=load) if quick else mvcm.case(quick, load=load, duration=1_500_000)


def runs(quick):
    return {
        f"{load} {name}": run
        for load in _loads(quick)
        for name, run in mvcm.runs(_case(quick, load), NAMES).items()
    }


def _point(run, of):
    """Return accepted traffic per first-stage switch, and the mean latency of cold and hot packets."""
    both = [mvcm.series(run, name, of.interval) for name in ("cold", "hot")]
    packets = sum(own.packets.sum() for own in both)
    total = sum(own.mean() * own.packets.sum() for own in both if own.packets.sum())
    switches = of.hosts / of.radix
    return packets * mvcm.PACKET / of.duration / switches, total / packets


def _curve(results, name):
    return [_point(results[f"{load} {name}"], _case(results.quick, load)) for load in _loads(results.quick)]


def compare(results):
    at = {
        (load, name): _point(results[f"{load} {name}"], _case(results.quick, load))
        for load in (*PUBLISHED, BEYOND)
        for name in NAMES
    }
    accepted = {name: at[BEYOND, name][0] for name in NAMES}
    numbers = {"accepted_Renato": accepted["Renato"] / max(accepted["MVCM"], accepted["Pfister"])}
    for label, load in zip(("low", "medium", "high"), PUBLISHED, strict=True):
        accepted, latency = ({name: at[load, name][n] for name in NAMES} for n in (0, 1))
        of = _case(results.quick, load)
        cold = {name: mvcm.cold_mean(results[f"{load} {name}"], of) for name in NAMES}
        numbers[f"cold_{label}_MVCM_over_Pfister"] = cold["MVCM"] / cold["Pfister"]
        numbers[f"cold_{label}_Pfister_over_Renato"] = cold["Pfister"] / cold["Renato"]
        numbers[f"latency_{label}_MVCM_over_Pfister"] = latency["MVCM"] / latency["Pfister"]
        numbers[f"latency_{label}_Pfister_over_Renato"] = latency["Pfister"] / latency["Renato"]
        numbers[f"accepted_{label}_MVCM_over_best"] = accepted["MVCM"] / max(accepted.values())
    return numbers


def plot(results, out):
    fig, (ax, cold) = figures.figure(columns=2)
    for name in NAMES:
        x, y = zip(*_curve(results, name), strict=True)
        ax.plot(x, y, "o-", markersize=4, label=name)
        loads = _loads(results.quick)
        peaks = [mvcm.peak(results[f"{load} {name}"], _case(results.quick, load)) for load in loads]
        cold.plot(loads, peaks, "o-", markersize=4, label=name)
    ax.set(
        xlabel="accepted traffic (bytes/cycle/switch)", ylabel="mean latency (cycles)", title="all packets"
    )
    cold.set(xlabel="load (bytes/cycle/switch)", ylabel="peak latency (cycles)", title="cold flows")
    cold.set_yscale("log")
    ax.legend(frameon=False)
    figures.save(fig, out, "M4")
