"""Cost of a simulation: half a second of the 648-host network with control on (Paper I, 3.3)."""

from silvan.papers import common, figures

forest = common("forest")

TABLES = ()
FULL_S = 0.5
QUICK_S = 0.02


def runs(quick):
    length = f"{round((QUICK_S if quick else FULL_S) * 1000)} ms"
    return {"on": forest.run(False, "on", {"duration": length})}


def compare(results):
    run = results["on"]
    return {
        "wall": run.wall_s * FULL_S / run.duration_s,
        "memory": run.peak_memory_mb,
        "data": run.summary["throughput_gbit_s"] * FULL_S / 8,
    }


def plot(results, out):
    ours = compare(results)
    fig, (wall, memory) = figures.figure(columns=2, size=(3.6, 3.6))
    figures.beside(wall, ("0.5 s simulated",), (86_400.0,), (ours["wall"],))
    wall.set(ylabel="wall time (s)", yscale="log", title="Wall time")
    figures.beside(memory, ("peak",), (1500.0,), (ours["memory"],))
    memory.set(ylabel="memory (MB)", title="Memory")
    figures.save(fig, out, "F8")
