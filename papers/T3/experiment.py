"""Throughput of the victim for different message sizes (Paper III, V.A.1 and figure 9)."""

from silvan.papers import common, figures

staged = common("staged")

SCENARIO = "../common/testbed-scenario-1.toml"
SIZES = tuple(2**n for n in range(6, 21))
CASES = {"no congestion": (False, {}), "off": (True, {}), "on": (True, staged.PAPER_III_CC)}


def _overrides(size, congested, control, quick):
    values = {
        "duration": "60 ms" if quick else "250 ms",
        "warmup": "30 ms" if quick else "50 ms",
        **control,
        **staged.HOSTS,
        "flow.0.message": f"{size} B",
    }
    # In the scenario, the contributors start after 1 s, which is after the end of these runs.
    if congested:
        values |= {f"flow.{flow}.start": "0 s" for flow in range(1, 5)}
    return values


def runs(quick):
    sizes = SIZES[::2] if quick else SIZES
    return {
        f"{case} {size}": (SCENARIO, _overrides(size, congested, control, quick))
        for case, (congested, control) in CASES.items()
        for size in sizes
    }


def _curves(results):
    sizes = [size for size in SIZES if f"off {size}" in results]
    return sizes, {
        case: [results[f"{case} {size}"].received_gbit_s("F1") for size in sizes] for case in CASES
    }


def compare(results):
    _, curves = _curves(results)
    on = [x / free for x, free in zip(curves["on"], curves["no congestion"], strict=True)]
    off = [x / free for x, free in zip(curves["off"], curves["no congestion"], strict=True)]
    return {
        "on_least": min(on),
        "on_most": max(on),
        "off_largest_message": off[-1],
        "off_smallest_message": off[0],
        "off_most": max(off),
    }


def plot(results, out):
    sizes, curves = _curves(results)
    fig, (ax,) = figures.figure()
    styles = {"no congestion": "o-", "on": "s--", "off": "^-"}
    labels = {
        "no congestion": "no congestion",
        "on": "congestion, control on",
        "off": "congestion, control off",
    }
    for case, style in styles.items():
        ax.plot(sizes, curves[case], style, markersize=4, linewidth=1.2, label=labels[case])
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xlabel("size of the victim's messages (bytes)")
    ax.set_ylabel("throughput of F1 (Gbit/s)")
    ax.set_title("The victim against its message size")
    ax.legend(frameon=False)
    figures.save(fig, out, "T3")
