"""The memory that EcoCC's control needs (Paper VI, supplement, table 5)."""

from silvan.papers import common, figures

hybrid = common("hybrid")

TABLES = ()
#: In Paper VI, an input port of VOQnet has memory for this number of packets of 2 KiB per destination.
VOQNET_PACKETS, PACKET = 64, 2048
MEMORY = {n.hosts: hybrid.ControlMemory(n.hosts, n.destinations) for n in hybrid.NETWORKS.values()}


def runs(quick):
    return {}


def compare(results):
    largest = MEMORY[1024]
    return {
        **{f"cam_{hosts}": float(own.cam_per_line) for hosts, own in MEMORY.items()},
        "cam_fields": float(hybrid.ControlMemory(64, 0).cam_per_line),
        **{
            f"list_{hosts}": float(own.cam_per_line - hybrid.ControlMemory(hosts, 0).cam_per_line)
            for hosts, own in MEMORY.items()
        },
        **{f"voqnet_{hosts}": hosts * VOQNET_PACKETS * PACKET / 2**20 for hosts in MEMORY},
        "sram": float(largest.sram_per_line),
        "cam_port": float(largest.cam_per_port),
        "sram_port": float(largest.sram_per_port),
        "cells_port": float(largest.cam_per_port + largest.sram_per_port),
        "bytes_port": largest.bytes_per_port,
    }


def plot(results, out):
    fig, (ax,) = figures.figure()
    names = [f"{hosts} hosts,\n{own.destinations} destinations" for hosts, own in MEMORY.items()]
    ours = [own.cam_per_line for own in MEMORY.values()]
    figures.beside(ax, names, (64, 144, 336), ours)
    ax.set(ylabel="CAM cells per line", title="A line of EcoCC's CAM")
    figures.save(fig, out, "A7")
