"""Three networks and three patterns under five mechanisms (Paper VI, figure 7)."""

from silvan.papers import common, figures

hybrid = common("hybrid")

TABLES = ("network", "hosts")
ROOTS = {1: 1, 2: 4, 3: 6}


def runs(quick):
    return hybrid.paper_vi_runs(hybrid.networks(quick), hybrid.PATTERNS, hybrid.PAPER_VI)


class _Totals:
    """Throughput while hot senders send, in Gbit/s: in total, and to hosts that are not hotspots."""

    def __init__(self, results):
        self.networks = hybrid.networks(results.quick)
        self.total = {key: hybrid.hot_total(run) for key, run in results.items()}
        self.cold = {key: self._victims(key, run) for key, run in results.items()}

    @staticmethod
    def _victims(key, run):
        network, pattern, _ = key.split()
        return hybrid.victims(run, hybrid.PATTERNS[int(pattern)], hybrid.NETWORKS[int(network)].hosts)

    def ratios(self, pattern, name, other, values=None):
        """Return the throughput of one mechanism divided by that of another, for each network."""
        values = values or self.total
        return [values[f"{n} {pattern} {name}"] / values[f"{n} {pattern} {other}"] for n in self.networks]


def compare(results):
    of = _Totals(results)
    numbers = {}
    for name in ("EcoCC", "HFDI"):
        numbers[f"{name}_1"] = min(of.ratios(1, name, "VOQnet"))
        numbers[f"{name}_victims_1"] = min(of.ratios(1, name, "VOQnet", of.cold))
    for pattern, roots in ((2, 4), (3, 6)):
        numbers[f"EcoCC_over_HFDI_{roots}"] = min(of.ratios(pattern, "EcoCC", "HFDI"))
    numbers["EcoCC_victims_6"] = min(of.ratios(3, "EcoCC", "VOQnet", of.cold))
    for pattern, roots in ROOTS.items():
        numbers[f"IB-ITh_{roots}"] = max(of.ratios(pattern, "IB-ITh", "EcoCC"))
        rest = [name for name in hybrid.PAPER_VI if name != "1VL"]
        worst = zip(*(of.ratios(pattern, "1VL", name) for name in rest), strict=True)
        numbers[f"1VL_worst_{roots}"] = max(max(ratios) for ratios in worst)
    numbers["best"] = max(
        ratio for pattern in ROOTS for name in hybrid.PAPER_VI for ratio in of.ratios(pattern, name, "VOQnet")
    )
    return numbers


def plot(results, out):
    networks = hybrid.networks(results.quick)
    fig, axes = figures.figure(columns=3, rows=len(networks), size=(4.8, 3.4))
    panels = iter(axes)
    for n in networks:
        for pattern, roots in ROOTS.items():
            own = {name: results[f"{n} {pattern} {name}"] for name in hybrid.PAPER_VI}
            hosts = hybrid.NETWORKS[n].hosts
            title = f"{hosts} hosts, {roots} root{'s' if roots > 1 else ''}"
            hybrid.draw_total(next(panels), own, hosts * 40, title)
    axes[0].legend(frameon=False, fontsize="small", ncols=2)
    figures.save(fig, out, "H5")
