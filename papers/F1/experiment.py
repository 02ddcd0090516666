"""A silent forest: eight standing hotspots, 80 % contributors, 20 % victims (Paper IV, table II)."""

from silvan.papers import common, figures

forest = common("forest")

TABLES = ("network",)
ALONE = {"traffic.0.pattern.victims": 20, "traffic.0.pattern.contributors": 0}
NAMES = ("alone off", "alone on", "off", "on")


def runs(quick):
    alone = {f"alone {c}": forest.run(quick, c, ALONE) for c in forest.CONTROL}
    return {**alone, **{c: forest.run(quick, c, {}) for c in forest.CONTROL}}


def compare(results):
    alone = {f"alone_{c}": forest.mean_mbit_s(results[f"alone {c}"]) / 1e3 for c in forest.CONTROL}
    numbers = dict(alone)
    for control in forest.CONTROL:
        run = results[control]
        numbers[f"hotspots_{control}"] = run.group("hotspots")
        numbers[f"others_{control}"] = run.group("other hosts")
        numbers[f"total_{control}"] = run.summary["throughput_gbit_s"]
    numbers["others_gain"] = numbers["others_on"] / numbers["others_off"]
    numbers["total_gain"] = numbers["total_on"] / numbers["total_off"]
    numbers["hotspots_loss"] = numbers["hotspots_on"] / numbers["hotspots_off"]
    numbers["loss_percent"] = 100 * (1 - numbers["hotspots_loss"])
    numbers["others_left"] = numbers["others_on"] / alone["alone_off"]
    return numbers


def plot(results, out):
    fig, (bars, time) = figures.figure(columns=2)
    names = ("V alone", "hotspots, off", "others, off", "hotspots, on", "others, on")
    ours = compare(results)
    keys = ("alone_off", "hotspots_off", "others_off", "hotspots_on", "others_on")
    figures.beside(bars, names, (2.699, 13.602, 0.168, 13.279, 2.246), [ours[key] for key in keys])
    bars.set(ylabel="received per host (Gbit/s)", title="Table II")
    for control, colour in (("off", 1), ("on", 0)):
        table = results[control].tables["network"]
        end_ms = table["time_ns"] * 1e-6
        step_s = (table["time_ns"][1] - table["time_ns"][0]) * 1e-9
        total = table["received_bytes"] * 8e-9 / step_s
        time.plot(end_ms, total, color=figures.COLOURS[colour], label=f"CC {control}")
    time.axhline(1543.793, color="0.4", linestyle="--", label="published mean, CC on")
    time.axhline(216.073, color="0.4", linestyle=":", label="published mean, CC off")
    time.set(
        xlabel="time (ms)", ylabel="total throughput (Gbit/s)", title="How long control takes", ylim=(0, None)
    )
    time.legend(frameon=False)
    figures.save(fig, out, "F1")
