"""Average gains of EcoCC and CCFIT with four roots (Paper VI, table 3)."""

from silvan.papers import common, figures

hybrid = common("hybrid")

TABLES = ("network",)
NETWORKS = (1, 2)
PATTERN = 2
#: The schemes with which EcoCC and CCFIT are compared, in the order of the table.
OVER = ("1VL", "IB-ITh", "HFDI", "VOQnet")
READ_PORTS = {"EcoCC": hybrid.PAPER_VI, "CCFIT": hybrid.SINGLE_READ_PORT}
PUBLISHED = {
    "EcoCC": {1: (1.58, 1.55, 1.29, 1.0), 2: (1.83, 1.75, 1.43, 1.0)},
    "CCFIT": {1: (1.67, 1.46, 1.10, 0.92), 2: (1.60, 1.51, 1.20, 0.67)},
}


def runs_of_seed(quick, n):
    """Return the runs of a seed. The hot hosts are not published, so each seed selects new ones."""
    every = {}
    for best, mechanisms in READ_PORTS.items():
        own = hybrid.paper_vi_runs(NETWORKS, (PATTERN,), mechanisms, draw=n)
        every.update({f"{best} {name}": run for name, run in own.items()})
    if quick:
        # The time after the hot senders have stopped is not compared.
        every = {name: (path, {**own, "duration": "2 ms"}) for name, (path, own) in every.items()}
    return every


def runs(quick):
    return runs_of_seed(quick, 0)


def _gains(results, best, network):
    total = {name: hybrid.hot_total(results[f"{best} {network} {PATTERN} {name}"]) for name in (best, *OVER)}
    return [total[best] / total[name] for name in OVER]


def compare(results):
    return {
        f"{best}_{name}_{network}": gain
        for best in READ_PORTS
        for network in NETWORKS
        for name, gain in zip(OVER, _gains(results, best, network), strict=True)
    }


def plot(results, out):
    fig, axes = figures.figure(columns=4, size=(4.2, 3.6))
    panels = iter(axes)
    for best, mechanisms in READ_PORTS.items():
        for network in NETWORKS:
            hosts = hybrid.NETWORKS[network].hosts
            own = {name: results[f"{best} {network} {PATTERN} {name}"] for name in mechanisms}
            ports = "one read port" if best == "CCFIT" else "a read port per output"
            ax = next(panels)
            hybrid.draw_total(ax, own, hosts * 40, f"{hosts} hosts, {ports}")
            ax.legend(frameon=False, fontsize="small")
    figures.save(fig, out, "H6")
