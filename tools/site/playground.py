"""Builds the playground: a page with the simulator as a WebAssembly module, and the renderer of reports.

    python tools/site/playground.py [FILE]

The program builds the module and writes the page, by default to target/site/playground.html. `make site` also
builds the playground.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
import zlib
from pathlib import Path

import silvan
from silvan._pages import digest, fill
from silvan.live import page as live_page

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).with_name("playground")
TARGET = "wasm32-unknown-unknown"
MODULE = ROOT / "target" / TARGET / "web" / "silvan_web.wasm"
#: Scripts that follow those of the viewer, in the order in which they run.
SCRIPTS = ("scenario.js", "live.js", "live-network.js", "stories.js", "controls.js", "playground.js")


#: The line of docs/playground.md that the page or a message replaces.
PLACE = "<!-- playground -->"
#: Networks of the page, as topologies of scenarios, for the speed of the native simulator.
NETWORKS = {
    "testbed": {"kind": "dumbbell"},
    "fat-tree": {"kind": "k-ary-n-tree", "k": 4, "n": 3},
    "torus": {"kind": "torus", "sizes": [4, 4], "hosts_per_switch": 4},
    "dragonfly": {"kind": "dragonfly", "p": 2, "a": 4, "h": 2},
    "fat-tree-648": {"kind": "fat-tree-648"},
}
#: Kinds of these networks that need virtual lanes for their routing. The rings of the torus are too short to
#: need them.
WITH_LANES = ("dragonfly",)


class MissingError(Exception):
    """The playground cannot be built here. The message states the reason."""

    def __init__(self, message: str, *, is_unexpected: bool = False) -> None:
        super().__init__(message)
        #: Whether the build should be possible with the installed tools.
        self.is_unexpected = is_unexpected


def build_module() -> bytes:
    """Compile the simulator for browsers, and return the module.

    Raises :class:`MissingError` if the compiler does not support browsers or `SILVAN_PLAYGROUND` is `none`,
    and `RuntimeError` if the module does not compile.
    """
    if os.environ.get("SILVAN_PLAYGROUND") == "none":
        raise MissingError("SILVAN_PLAYGROUND is none")
    add_target()
    command = ["tools/with-rust", "cargo", "build", "--quiet", "--profile", "web", "-p", "silvan-web"]
    command += ["--target", TARGET]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"the module does not compile:\n{done.stderr.strip()}")
    return MODULE.read_bytes()


def add_target() -> None:
    """Install the compiler's standard library for browsers if it is missing.

    Raises :class:`MissingError` if it cannot or may not be installed.
    """
    library = _output("tools/with-rust", "rustc", "--print", "target-libdir", "--target", TARGET)
    if library and any(Path(library).glob("libstd-*.rlib")):
        return
    if _output("tools/with-rust", "rustup", "--version") is None:
        raise MissingError(f"the Rust compiler has no target {TARGET}, and there is no rustup to add it")
    if os.environ.get("SILVAN_NO_INSTALL"):
        raise MissingError(f"the Rust compiler has no target {TARGET}: rustup target add {TARGET}")
    if _output("tools/with-rust", "rustup", "target", "add", TARGET) is None:
        raise MissingError(f"`rustup target add {TARGET}` failed", is_unexpected=True)


def _output(*command: str) -> str | None:
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def native_speeds() -> dict[str, float]:
    """Return the speed of the native simulator by network, in million packet hops per second.

    The difference between two runs of different length excludes the time to set a run up.
    """
    speeds = {}
    for name, topology in NETWORKS.items():
        # Simulate about equal numbers of packets.
        hosts = {"testbed": 1, "fat-tree-648": 648}.get(name, 64)
        short, long = (_measured(topology, us) for us in (5_000 // hosts, 100_000 // hosts))
        speeds[name] = round((long[0] - short[0]) / max(long[1] - short[1], 1e-3) / 1e6, 2)
    return speeds


def _measured(topology: dict[str, object], duration_us: int) -> tuple[int, float]:
    """Run uniform traffic for a time; return the packet hops and the seconds that they took."""
    lanes = 'lanes = { count = 2, assignment = "routing" }' if topology["kind"] in WITH_LANES else ""
    text = f"""
        duration = "{duration_us} us"
        topology = {{ {", ".join(f"{key} = {json.dumps(value)}" for key, value in topology.items())} }}
        {lanes}
        measure = {{ interval = "10 us" }}
        [[traffic]]
        pattern = {{ kind = "uniform" }}
        rate = "4 Gbit/s"
        arrivals = "poisson"
    """
    began = time.perf_counter()
    result = silvan.run(silvan.Scenario.from_toml(text))
    return result.summary["packet_hops"], time.perf_counter() - began


def page(module: bytes, native: dict[str, float] | None = None) -> str:
    """Return the page; `native` has the speed of the native simulator by network (:func:`native_speeds`)."""
    own = [(SOURCES / name).read_text(encoding="utf-8") for name in SCRIPTS]
    script = "\n".join([live_page.script(), *own])
    style = live_page.style() + (SOURCES / "playground.css").read_text(encoding="utf-8")
    values = {
        # `wasm-unsafe-eval` allows WebAssembly. All other code must be in the page.
        "POLICY": f"default-src 'none'; script-src {digest(script)} 'wasm-unsafe-eval'; "
        f"style-src {digest(style)}; worker-src blob:; img-src data:; base-uri 'none'; "
        "form-action 'none'",
        "STYLE": style,
        "SCRIPT": script,
        "PLAYER": live_page.player(),
        "WORKER": (SOURCES / "worker.js").read_text(encoding="utf-8"),
        "MODULE": base64.b64encode(zlib.compress(module, 9)).decode(),
        "NATIVE": json.dumps(native or {}),
        "VERSION": silvan.__version__,
    }
    return fill((SOURCES / "page.html").read_text(encoding="utf-8"), values)


def main() -> int:
    """Write the page; return the exit status."""
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "target" / "site" / "playground.html"
    try:
        module = build_module()
    except MissingError as missing:
        print(f"playground: {missing}", file=sys.stderr)
        return 1
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page(module), encoding="utf-8")
    print(f"{file}: {file.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
