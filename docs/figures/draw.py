"""Draw the figures of docs/isolation.md: `python docs/figures/draw.py` writes them to its own folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

INK, FAINT, COLD, HOT, OTHER = "#1f2933", "#8a94a0", "#9db8d2", "#e8833a", "#c9a7d8"
CELLS = {"c": COLD, "h": HOT, "o": OTHER}
#: What a letter of a queue's content stands for.
LEGEND = (("c", "cold"), ("h", "hot"), ("o", "hot, of another tree"))


class Figure:
    """An SVG under construction."""

    def __init__(self, width: int, height: int, title: str) -> None:
        """Start a picture of a size in pixels."""
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" font-family="Helvetica, Arial, sans-serif" font-size="12" fill="{INK}">',
            f"<title>{title}</title>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        ]

    def text(self, x: float, y: float, text: str, *, anchor: str = "start", style: str = "") -> None:
        """Write a line; `style` is `bold`, `faint`, `hot` or nothing."""
        more = {"bold": 'font-weight="bold"', "faint": f'fill="{FAINT}"', "hot": f'fill="{HOT}"'}.get(
            style, ""
        )
        self.parts.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" {more}>{text}</text>')

    def box(self, x: float, y: float, w: float, h: float, *, dash: bool = False, fill: str = "none") -> None:
        """Draw a frame."""
        more = 'stroke-dasharray="5 4"' if dash else ""
        colour = FAINT if dash else INK
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="3" fill="{fill}" '
            f'stroke="{colour}" {more}/>'
        )

    def line(
        self, *points: tuple[float, float], colour: str = INK, arrow: bool = True, dash: bool = False
    ) -> None:
        """Draw a line through points, by default with a head at its end."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        more = 'stroke-dasharray="4 3"' if dash else ""
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.3" {more}/>'
        )
        if arrow:
            (xa, ya), (x, y) = points[-2:]
            dx, dy = (x > xa) - (x < xa), (y > ya) - (y < ya)
            a, b = (x - 7 * dx - 4 * dy, y - 7 * dy - 4 * dx), (x - 7 * dx + 4 * dy, y - 7 * dy + 4 * dx)
            head = f"{x:g},{y:g} {a[0]:g},{a[1]:g} {b[0]:g},{b[1]:g}"
            self.parts.append(f'<polygon points="{head}" fill="{colour}"/>')

    def packet(self, x: float, y: float, letter: str) -> None:
        """Draw a packet."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="12" height="14" fill="{CELLS[letter]}" stroke="{INK}" '
            'stroke-width="0.5"/>'
        )

    def queue(
        self, x: float, y: float, label: str, cells: str, *, w: float = 210, stopped: bool = False
    ) -> None:
        """Draw a queue whose head is at the right; `cells` from the tail to the head."""
        right = x + w
        self.parts.append(
            f'<polyline points="{x:g},{y:g} {right:g},{y:g} {right:g},{y + 22:g} {x:g},{y + 22:g}" '
            f'fill="#f6f8fa" stroke="{INK}"/>'
        )
        for at, cell in enumerate(reversed(cells)):
            left = right - 3 - 14 * (at + 1)
            self.packet(left, y + 4, cell)
        self.text(x + 6, y + 15, label)
        if stopped:
            self.line((right + 5, y - 2), (right + 5, y + 24), colour=HOT, arrow=False)
            self.line((right + 8, y - 2), (right + 8, y + 24), colour=HOT, arrow=False)

    def legend(self, x: float, y: float, letters: str) -> None:
        """Say what the colours mean."""
        for letter, name in LEGEND:
            if letter in letters:
                self.packet(x, y - 11, letter)
                self.text(x + 18, y, name)
                x += 34 + 7 * len(name)

    def finish(self) -> str:
        """Give the file's text."""
        return "\n".join([*self.parts, "</svg>", ""])


def feed(fig: Figure, ys: list[float], left: float = 150, link: float = 20) -> None:
    """Draw the link and how packets are spread over queues at these heights."""
    middle = (ys[0] + ys[-1]) / 2
    fig.text(link, middle - 8, "link")
    fig.line((link, middle), (left - 36, middle), arrow=False)
    for y in ys:
        if y == middle:
            fig.line((left - 36, y), (left - 4, y))
        else:
            fig.line((left - 36, middle), (left - 36, y), (left - 4, y))


def crossbar(fig: Figure, x: float, y: float, h: float, label: str) -> None:
    """Draw a crossbar with four outputs."""
    fig.box(x, y, 90, h, fill="#eef1f4")
    fig.text(x + 45, y + h / 2 - 2, "crossbar", anchor="middle")
    fig.text(x + 45, y + h / 2 + 14, label, anchor="middle", style="faint")
    for out in range(4):
        at = y + h * (out + 0.5) / 4
        fig.line((x + 90, at), (x + 130, at))
        fig.text(x + 136, at + 4, f"out {out}")


def one_read_port(fig: Figure, ys: list[float], right: float, xbar: float) -> None:
    """Draw the one read port that queues at these heights share."""
    middle = (ys[0] + ys[-1]) / 2
    for y in ys:
        fig.line((right, y), (right + 30, y), arrow=False)
    fig.line((right + 30, ys[0] - 8), (right + 30, ys[-1] + 8), arrow=False)
    fig.line((right + 30, middle), (xbar, middle))
    fig.text(right + 38, middle - 8, "one read port")


def input_queued() -> str:
    """Draw the IQ switch with 1Q."""
    fig = Figure(720, 150, "Input port of an input-queued switch with one queue (1Q)")
    fig.text(130, 22, "input port", style="bold")
    fig.box(130, 32, 260, 84, dash=True)
    fig.queue(155, 63, "1Q", "cchchoch")
    feed(fig, [74], 155)
    fig.line((365, 74), (505, 74))
    fig.text(403, 66, "one read port")
    crossbar(fig, 505, 24, 100, "iSLIP")
    fig.legend(155, 138, "cho")
    return fig.finish()


def virtual_output_queues() -> str:
    """Draw the VOQ switch: CPQs with a read port each."""
    fig = Figure(720, 200, "Input port of a VOQ switch: a queue and a read port per output")
    fig.text(130, 22, "input port", style="bold")
    fig.box(130, 32, 260, 134, dash=True)
    ys: list[float] = []
    for out, cells in enumerate(("cc", "chhchhh", "", "c")):
        y = 40 + 31 * out
        fig.queue(155, y, f"CPQ {out} (to out {out})", cells)
        ys.append(y + 11.0)
        fig.line((365, y + 11), (505, y + 11))
    feed(fig, ys, 155)
    fig.text(403, 44, "a read port each")
    crossbar(fig, 505, 36, 124, "round robin")
    fig.legend(155, 188, "ch")
    return fig.finish()


def combined_queues() -> str:
    """Draw the CIOQ switch: a queue at the input, a buffer at the output, both with thresholds."""
    fig = Figure(760, 200, "Ports of a switch with buffers at inputs and outputs (CIOQ)")
    fig.text(60, 22, "input port", style="bold")
    fig.box(60, 32, 220, 84, dash=True)
    fig.queue(80, 63, "", "chchchch", w=150)
    fig.line((10, 74), (76, 74))
    fig.text(10, 66, "link")
    fig.text(80, 54, "mark what arrives above", style="hot")
    fig.line((155, 58), (155, 90), colour=HOT, arrow=False, dash=True)
    fig.line((230, 74), (330, 74))
    fig.text(286, 66, "2 x link", style="faint")
    fig.box(330, 32, 80, 100, fill="#eef1f4")
    fig.text(370, 80, "crossbar", anchor="middle")
    fig.text(370, 96, "round robin", anchor="middle", style="faint")
    fig.text(490, 22, "output port", style="bold")
    fig.box(490, 32, 220, 84, dash=True)
    fig.line((410, 74), (506, 74))
    fig.text(420, 66, "2 x link", style="faint")
    fig.queue(510, 63, "", "hhhhh", w=150)
    fig.text(510, 54, "validate what leaves above", style="hot")
    fig.line((600, 58), (600, 90), colour=HOT, arrow=False, dash=True)
    fig.line((660, 74), (750, 74))
    fig.text(724, 66, "link")
    fig.text(60, 150, "A first-in first-out queue with one read port at each input, and one with one write")
    fig.text(60, 167, "port at each output. A packet moves when the output buffer has room for all of it.")
    fig.legend(60, 190, "ch")
    return fig.finish()


def static_organisations() -> str:
    """Draw VOQnet, DBBM, OBQA and DAMQ."""
    fig = Figure(720, 330, "Static queue organisations")
    own, shared = "memory: a part each", "memory: DAMQ shares it, VOQsw may not"
    modulo = ("dst 0, 4, 8 ...", "dst 1, 5, 9 ...", "dst 2, 6, 10 ...", "dst 3, 7, 11 ...")
    outputs = ("out 0", "out 1", "out 2", "out 3")
    panels = (
        ("VOQnet: destination", own, ("dst 0", "dst 1", "dst 2", "... dst 63"), ("c", "hhhhhh", "", "cc")),
        ("DBBM: destination modulo 4", own, modulo, ("c", "hhchh", "", "cc")),
        ("OBQA: output modulo 2", own, ("out 0, out 2", "out 1, out 3"), ("cc", "chhch")),
        ("VOQsw and DAMQ: output", shared, outputs, ("cc", "chhch", "", "c")),
    )
    for at, (title, memory, labels, cells) in enumerate(panels):
        x, y = 20 + 360 * (at % 2), 24 + 150 * (at // 2)
        fig.text(x, y, title, style="bold")
        fig.text(x, y + 122, memory, style="faint")
        ys = [y + 21.0 + 26 * row for row in range(len(labels))]
        for top, label, content in zip(ys, labels, cells, strict=True):
            fig.queue(x + 60, top - 11, label, content, w=220)
            fig.line((x + 280, top), (x + 310, top))
        feed(fig, ys, x + 60, x)
    fig.legend(20, 322, "ch")
    return fig.finish()


def cam(fig: Figure, x: float, y: float, title: str, rows: tuple[str, ...], w: float = 150) -> None:
    """Draw a CAM with its lines."""
    fig.text(x, y - 6, title, style="bold")
    for at, row in enumerate(rows):
        fig.box(x, y + 22 * at, w, 22, fill="#fff6ec")
        fig.text(x + 6, y + 15 + 22 * at, row)


def input_fbicm() -> str:
    """Draw FBICM and CCFIT."""
    fig = Figure(760, 300, "Input port of FBICM and CCFIT: NFQ, CFQs and CAM")
    fig.text(130, 22, "input port", style="bold")
    fig.box(130, 32, 290, 236, dash=True)
    fig.queue(165, 46, "NFQ", "cchccch")
    fig.queue(165, 96, "CFQ 0", "hhhhh")
    fig.queue(165, 130, "CFQ 1", "oo")
    feed(fig, [57], 165)
    fig.line((378, 63), (392, 63), (392, 82), (150, 82), (150, 107), (162, 107), colour=HOT, dash=True)
    fig.line((150, 107), (150, 141), (162, 141), colour=HOT, dash=True)
    fig.text(262, 78, "post-processing", style="hot", anchor="middle")
    one_read_port(fig, [57, 107, 141], 375, 540)
    crossbar(fig, 540, 40, 118, "iSLIP")
    cam(fig, 165, 194, "CAM of the input", ("line 0: H1, H5 > out 1", "line 1: H9 > out 2"), 210)
    cam(fig, 540, 194, "CAM of out 2", ("from next switch: H9, Go",), 190)
    fig.text(540, 236, "passes it on to the inputs", style="faint")
    fig.text(540, 252, "whose packets need it", style="faint")
    fig.legend(165, 290, "cho")
    return fig.finish()


def input_hfdi() -> str:
    """Draw HFDI and EcoCC."""
    fig = Figure(760, 370, "Input port of HFDI and EcoCC: CPQs, HPQs and CAM")
    fig.text(130, 22, "input port", style="bold")
    fig.box(130, 32, 290, 304, dash=True)
    ys: list[float] = []
    for out, cells in enumerate(("c", "hhhhhhh", "cco", "c")):
        y = 44 + 28 * out
        fig.queue(165, y, f"CPQ {out}", cells)
        ys.append(y + 11.0)
    feed(fig, ys, 165)
    fig.queue(165, 178, "HPQ 0", "oooo", stopped=True)
    fig.queue(165, 208, "HPQ 1", "")
    fig.line((378, 117), (395, 117), (395, 164), (150, 164), (150, 189), (162, 189), colour=HOT, dash=True)
    fig.text(262, 160, "post-processing", style="hot", anchor="middle")
    for head in (*ys, 189.0, 219.0):
        fig.line((388 if head == 189 else 375, head), (540, head))
    fig.text(436, 46, "a read port each")
    fig.text(436, 182, "stopped", style="hot")
    crossbar(fig, 540, 40, 190, "round robin")
    cam(fig, 165, 268, "CAM of the input", ("CPQ 1 is a root: H1, H5", "HPQ 0: line of out 2"), 210)
    cam(fig, 540, 268, "CAM of out 2", ("from next switch: H9, Stop",), 190)
    fig.legend(165, 358, "cho")
    return fig.finish()


def adapter() -> str:
    """Draw the host adapter."""
    fig = Figure(760, 290, "Host adapter")
    fig.text(20, 22, "flows: a queue per destination", style="bold")
    ys: list[float] = []
    for at, (label, cells) in enumerate(
        (("to H1", "hhhhh"), ("to H2", "cc"), ("to H3", ""), ("to H9", "ooo"))
    ):
        y = 38 + 32 * at
        fig.queue(20, y, label, cells, w=170)
        fig.line((190, y + 11), (236, y + 11))
        ys.append(y + 11.0)
    fig.box(236, 38, 96, 118, fill="#eef1f4")
    fig.text(284, 92, "arbiter", anchor="middle")
    fig.text(284, 108, "round robin", anchor="middle", style="faint")
    fig.text(20, 184, "A flow is passed over while")
    fig.text(20, 201, "- its delay has not passed: now &lt; LTI + CCT[CCTI] (throttling)", style="faint")
    fig.text(20, 218, "- a stopped CAM line lists its destination (isolation)", style="faint")
    fig.text(20, 235, "- the buffer has no room for its packet", style="faint")
    fig.text(400, 22, "output buffer", style="bold")
    fig.box(392, 30, 260, 136, dash=True)
    fig.queue(415, 44, "normal", "cch")
    fig.queue(415, 88, "special 0", "ooo", stopped=True)
    fig.queue(415, 124, "special 1", "hh")
    fig.line((332, 55), (411, 55))
    fig.line((628, 60), (641, 60), (641, 76), (402, 76), (402, 99), (412, 99), colour=HOT, dash=True)
    fig.line((402, 99), (402, 135), (412, 135), colour=HOT, dash=True)
    for y in (55, 99, 135):
        fig.line((638 if y == 99 else 625, y), (672, y), arrow=False)
    fig.line((672, 47), (672, 143), arrow=False)
    fig.line((672, 97), (735, 97))
    fig.text(684, 89, "link")
    cam(fig, 465, 206, "CAM of the link", ("from switch: H9, Stop", "from switch: H1, Go"), 190)
    fig.legend(20, 275, "cho")
    return fig.finish()


Strip = tuple[str, tuple[str, str, str, str, str], tuple[str, str], tuple[bool, bool]]

#: Title; content of adapter's normal and special queue, of switch A's, of B's; notices from A to the
#: adapter and from B to A; whether the special queues of adapter and A are stopped.
STRIPS: tuple[Strip, ...] = (
    ("1. Detect: at B the queue of an output grows above the threshold: that output is a root.",
     ("cchc", "", "chchc", "", "hhhhhhh"), ("", "allocate: H1"), (False, False)),
    ("2. Isolate: A stores the line at its output. The first packet for H1 takes a special queue.",
     ("cchc", "", "ccc", "hhh", "hhhhhhh"), ("", ""), (False, False)),
    ("3. Stop and Go: B's queue is above the stop threshold; A's special queue waits, and fills.",
     ("cchc", "", "ccc", "hhhhhhh", "hhhhhhh"), ("", "stop"), (False, True)),
    ("4. Propagate: A's special queue is above the threshold, so the line goes one hop further.",
     ("ccc", "hh", "ccc", "hhhhhhh", "hhhhhhh"), ("allocate: H1", ""), (False, True)),
    ("5. Go, drain and release: what is empty and not stopped is given back, link by link.",
     ("ccc", "", "ccc", "", "h"), ("release", "go"), (False, False)),
)  # fmt: skip


def steps() -> str:
    """Draw how a tree is isolated."""
    height = 132
    fig = Figure(760, 20 + height * len(STRIPS), "How a tree is isolated, step by step")
    for at, (title, cells, notices, stopped) in enumerate(STRIPS):
        top = 20 + height * at
        fig.text(20, top, title, style="bold")
        nodes = (
            ("host adapter", "normal", "special"),
            ("switch A", "CPQ", "HPQ"),
            ("switch B (root)", "CPQ", ""),
        )
        for node, (name, normal, special) in enumerate(nodes):
            x = 20 + 270 * node
            fig.box(x, top + 12, 180, 90, dash=True)
            fig.text(x + 6, top + 27, name, style="faint")
            fig.queue(x + 12, top + 36, normal, cells[2 * node], w=152)
            if special:
                fig.queue(x + 12, top + 68, special, cells[2 * node + 1], w=152, stopped=stopped[node])
        for gap, notice in enumerate(notices):
            x = 200 + 270 * gap
            fig.line((x + 4, top + 47), (x + 86, top + 47))
            if notice:
                fig.line((x + 86, top + 84), (x + 4, top + 84), colour=HOT)
                fig.text(x + 45, top + 77, notice, anchor="middle", style="hot")
    fig.legend(20, 14 + height * len(STRIPS), "ch")
    return fig.finish()


FIGURES: dict[str, Callable[[], str]] = {
    "input-1q": input_queued,
    "input-voq": virtual_output_queues,
    "ports-cioq": combined_queues,
    "input-static": static_organisations,
    "input-fbicm": input_fbicm,
    "input-hfdi": input_hfdi,
    "adapter": adapter,
    "steps": steps,
}


def main() -> None:
    """Write all of them."""
    for name, draw in FIGURES.items():
        (Path(__file__).parent / f"{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
