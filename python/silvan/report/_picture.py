"""Draws a still image of the network as SVG, for printing and for browsers without scripts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT = 1000, 420
MARGIN = 24
#: If there are more links outside of trees, a still image omits them.
MOST_IDLE = 6_000
#: Colors of trees: six colors of Okabe and Ito, and two others. `data.js` has the same list.
HUES = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d00", "#7a5fb0")


def still(
    place: NDArray[np.float32],
    ends: tuple[NDArray[Any], NDArray[Any]],
    hosts: int,
    spans: dict[str, NDArray[np.int64]],
    frame_and_hues: tuple[int, NDArray[np.int64]],
) -> str:
    """Return the image of a frame as SVG, with a color for each tree.

    `ends` contains the nodes at the start and at the end of each link, and `frame_and_hues` the frame and the
    color number of each tree.
    """
    frame, hues = frame_and_hues
    x = MARGIN + place[:, 0] * (WIDTH - 2 * MARGIN)
    y = MARGIN + place[:, 1] * (HEIGHT - 2 * MARGIN)
    source, target = ends
    now = np.flatnonzero((spans["first"] <= frame) & (frame <= spans["last"]))
    in_tree = spans["link"][now]
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="The network at its most congested">'
    ]
    idle = np.setdiff1d(np.arange(len(source)), in_tree)
    if len(idle) <= MOST_IDLE:
        parts.append(f'<path class="idle" d="{_lines(x, y, source[idle], target[idle])}"/>')
    for hue in range(len(HUES)):
        links = in_tree[hues[spans["tree"][now] - 1] == hue]
        if len(links):
            lines = _lines(x, y, source[links], target[links])
            parts.append(f'<path class="branch" stroke="{HUES[hue]}" d="{lines}"/>')
    radius = 4 if len(place) < 200 else 1.5
    for nodes, kind in ((slice(0, hosts), "host"), (slice(hosts, None), "switch")):
        dots = "".join(
            f"M{one:.1f} {other:.1f}h0"
            for one, other in zip(x[nodes].tolist(), y[nodes].tolist(), strict=True)
        )
        parts.append(f'<path class="{kind}" stroke-width="{2 * radius}" d="{dots}"/>')
    for at in now[spans["depth"][now] == 0].tolist():
        end = target[spans["link"][at]]
        colour = HUES[hues[spans["tree"][at] - 1]]
        parts.append(f'<circle class="root" cx="{x[end]:.1f}" cy="{y[end]:.1f}" r="8" stroke="{colour}"/>')
    parts.append("</svg>")
    return "".join(parts)


def _lines(x: NDArray[Any], y: NDArray[Any], source: NDArray[Any], target: NDArray[Any]) -> str:
    return "".join(
        f"M{a:.0f} {b:.0f}L{c:.0f} {d:.0f}"
        for a, b, c, d in zip(
            x[source].tolist(), y[source].tolist(), x[target].tolist(), y[target].tolist(), strict=True
        )
    )
