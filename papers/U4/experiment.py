"""A testbed with hosts at 100 and 25 Gbit/s: pauses without and with a delay of notifications."""

from silvan.papers import figures

TABLES = ("links",)

SCENARIO = "rates.toml"
DELAYS = {"0": "0 s", "55": "55 us"}
#: Exponents: the threshold of pauses is the free memory divided by two to this power, or 0.5 MB and 4 MB if
#: all memory is free.
THRESHOLDS = {"low": 6, "high": 3}
#: The shortest times between notifications: that of the vendor, and that of the paper about DCQCN.
INTERVALS = {"tuned": "4 us", "paper": "50 us"}


def runs(quick):
    time = "3 ms" if quick else "10 ms"
    return {
        f"{delay} {threshold} {interval}": (
            SCENARIO,
            {
                "duration": time,
                "congestion.notification_delay": DELAYS[delay],
                "flow_control.shared.alpha_shift": THRESHOLDS[threshold],
                "congestion.coalescing.interval": INTERVALS[interval],
            },
        )
        for delay in DELAYS
        for threshold, interval in (("low", "tuned"), ("high", "tuned"), ("high", "paper"))
    }


def fill(run):
    """Return the times in ms, and the bytes that wait at the output to the slow host."""
    links = run.tables["links"]
    rows = [
        (time, queued)
        for time, link, queued in zip(links["time_ns"], links["link"], links["queued_bytes"], strict=True)
        if link == "S1:2->H2"
    ]
    return [time / 1e6 for time, _ in rows], [queued for _, queued in rows]


def compare(results):
    pauses = {name: run.summary["pauses"]["pause_frames"] for name, run in results.items()}
    found = {"notifications_55": results["55 low tuned"].summary["becn_received"]}
    for delay in DELAYS:
        found[f"pauses_{delay}"] = pauses[f"{delay} low tuned"]
        found[f"pauses_paper_{delay}"] = pauses[f"{delay} high paper"]
    found["pauses_high_55"] = pauses["55 high tuned"]
    peaks = {delay: max(fill(results[f"{delay} high tuned"])[1]) / 1e3 for delay in DELAYS}
    found["growth"] = peaks["55"] - peaks["0"]
    return found


def plot(results, out):
    fig, (ax,) = figures.figure()
    for delay, colour in zip(DELAYS, figures.COLOURS, strict=False):
        times, queued = fill(results[f"{delay} high tuned"])
        ax.plot(times, [count / 1e3 for count in queued], color=colour, label=f"delay of {DELAYS[delay]}")
    ax.axhline(500, color="0.4", linestyle="--", linewidth=1, label="threshold of 0.5 MB")
    ax.set(xlabel="time, ms", ylabel="queue to the slow host, kB", xlim=(0, 3))
    ax.legend(frameon=False)
    figures.save(fig, out, "U4")
