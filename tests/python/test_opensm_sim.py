"""Tests lines for opensm.conf on a simulated fabric: OpenSM sets them in every adapter of `ibsim`."""

import contextlib
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

import silvan
from conftest import FABRICS

PRELOAD = sorted(Path("/usr/lib").glob("*/umad2sim/libumad2sim.so"))
MISSING = [tool for tool in ("opensm", "ibsim") if shutil.which(tool) is None]
MISSING += ["libumad2sim"] * (not PRELOAD)
#: Attributes of class 0x21. A block of the CongestionControlTable has 64 entries.
SWITCH, ADAPTER, TABLE = 20, 22, 23


@contextlib.contextmanager
def simulated(topology, work):
    """Run `ibsim` with a fabric; yield the environment for programs that use it."""
    name = f"silvan-test-{os.getpid()}"
    own = os.environ | {"IBSIM_SOCKNAME": name, "OSM_TMP_DIR": str(work), "OSM_CACHE_DIR": str(work)}
    log = (work / "ibsim.log").open("wb")
    with (
        log,
        subprocess.Popen(
            ["ibsim", "-s", "-n", topology], env=own, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        ) as ibsim,
    ):
        try:
            yield own | {"LD_PRELOAD": str(PRELOAD[0]), "SIM_HOST": "H-0002c90300000000"}
        finally:
            ibsim.terminate()


def once(env, work, options):
    """Let OpenSM sweep the fabric once; repeat until `ibsim` is ready."""
    for _ in range(10):
        time.sleep(0.5)
        done = subprocess.run(
            ["opensm", "-F", options, "-o", "-e", "-D", "0xff", "-f", work / "opensm.log"],
            env=env, cwd=work, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        if done.returncode == 0:
            return (work / "opensm.log").read_text(errors="replace")
    pytest.fail(f"OpenSM does not see the fabric: {done.stdout[-500:]}{done.stderr[-500:]}")


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
def test_opensm_sets_the_tuned_options_in_every_adapter_of_a_simulated_fabric(small, tmp_path):
    space = {"cct.longest_us": [5, 80], "congestion.reaction.ccti_increase": [1, 4]}
    short = {"duration": "1 ms", "warmup": "500 us", "flow.2.start": "0 s"}
    silvan.tune(
        small, space, runs=5, confirm=2, overrides=short, store=tmp_path / "runs", out=tmp_path / "out"
    )
    with simulated(FABRICS / "sw2-h7" / "input.topo", tmp_path) as env:
        log = once(env, tmp_path, tmp_path / "out" / "opensm.conf")
    assert "SUBNET UP" in log
    assert " ERR " not in log
    answers = set(
        re.findall(r"MAD status (0x\w+) for attr ID (\d+) mod (0x\w+) node 0x2c90(\d)000000(\d\d)\b", log)
    )
    hosts = {f"{n}0" for n in range(7)}
    for attribute, block in ((ADAPTER, "0x0"), (TABLE, "0x0"), (TABLE, "0x1")):
        taken = {
            host
            for status, own, mod, kind, host in answers
            if (status, own, mod, kind) == ("0x0", str(attribute), block, "3")
        }
        assert taken == hosts, (attribute, block)
    # `ibsim` does not simulate the switch settings, but the test can observe that OpenSM sends them.
    assert {node for _, own, _, kind, node in answers if (own, kind) == (str(SWITCH), "2")} == {"00", "10"}
