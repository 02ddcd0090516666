"""Switch inputs without a free special queue (Paper VI, supplement, figure 10)."""

from silvan.papers import common, figures

hybrid = common("hybrid")

TABLES = ("isolation",)
NAMES = ("HFDI", "EcoCC")
ROOTS = {1: 1, 2: 4, 3: 6}


def runs(quick):
    mechanisms = {name: hybrid.PAPER_VI[name] for name in NAMES}
    return hybrid.paper_vi_runs(hybrid.networks(quick), hybrid.PATTERNS, mechanisms)


def _share(results, network, pattern, name, span=hybrid.Hotspots.SPAN_MS):
    """Return the mean share of switch inputs without a free special queue over a span of time."""
    series = hybrid.ports_series(results[f"{network} {pattern} {name}"])
    return hybrid.mean_between(*series, *span) / hybrid.NETWORKS[network].switch_inputs


def compare(results):
    networks = hybrid.networks(results.quick)
    share = {
        (n, roots, name): _share(results, n, pattern, name)
        for n in networks
        for pattern, roots in ROOTS.items()
        for name in NAMES
    }
    late = {
        (n, roots): _share(results, n, pattern, "HFDI", (1.5, 2.0)) / max(share[n, roots, "HFDI"], 1e-9)
        for n in networks
        for pattern, roots in ROOTS.items()
    }
    return {
        "HFDI_4_over_1": min(share[n, 4, "HFDI"] / max(share[n, 1, "HFDI"], 1e-9) for n in networks),
        "HFDI_6_over_4": min(share[n, 6, "HFDI"] / max(share[n, 4, "HFDI"], 1e-9) for n in networks),
        "HFDI_stays_4": min(late[n, 4] for n in networks),
        "HFDI_stays_6": min(late[n, 6] for n in networks),
        "EcoCC_over_HFDI_4": max(share[n, 4, "EcoCC"] / max(share[n, 4, "HFDI"], 1e-9) for n in networks),
        "EcoCC_over_HFDI_6": max(share[n, 6, "EcoCC"] / max(share[n, 6, "HFDI"], 1e-9) for n in networks),
        "apart_1": max(abs(share[n, 1, "EcoCC"] - share[n, 1, "HFDI"]) for n in networks),
    }


def plot(results, out):
    networks = hybrid.networks(results.quick)
    fig, axes = figures.figure(columns=3, rows=len(networks), size=(4.8, 3.2))
    panels = iter(axes)
    for n in networks:
        for pattern, roots in ROOTS.items():
            ax = next(panels)
            for name, colour in zip(NAMES, (2, 3), strict=True):
                end_ms, ports = hybrid.ports_series(results[f"{n} {pattern} {name}"])
                ax.plot(end_ms, ports, color=figures.COLOURS[colour], linewidth=1.2, label=name)
            title = f"{hybrid.NETWORKS[n].hosts} hosts, {roots} root{'s' if roots > 1 else ''}"
            ax.set(xlabel="time (ms)", ylabel="inputs without a free queue", title=title, ylim=(0, None))
    axes[0].legend(frameon=False)
    figures.save(fig, out, "H7")
