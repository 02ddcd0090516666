"""The compiled module of the package."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, final

from silvan.types import FabricCheck, Fluid, ScenarioCheck, Summary, TraceCheck, WrittenTrace

__version__: str

class SilvanError(Exception):
    """The base of all errors of Silvan."""

class ScenarioError(SilvanError):
    """A scenario is wrong; the message has the place, the fault and valid values."""

class ModelError(SilvanError):
    """A run cannot be built or continue."""

class FabricError(SilvanError):
    """The files of a real fabric are wrong or inconsistent."""

class TraceError(SilvanError):
    """A trace is wrong; the message has the place, the fault and valid values."""

@final
class Scenario:
    """A validated scenario: what is simulated, and how. Immutable.

    Load one from a file with ``Scenario.load("testbed.toml")``, from text with ``Scenario.from_toml(text)``,
    or one that comes with Silvan with ``silvan.scenarios.load("testbed")``. There is no constructor.

    Overrides are dotted keys and values: ``{"congestion.mechanism": "ib-cc", "seed": 7}``. A
    text is read as after ``--set`` on the command line, so ``"1 ms"`` is a quantity.
    """

    @staticmethod
    def load(path: str | PathLike[str], overrides: Mapping[str, Any] | None = None) -> Scenario:
        """Read a scenario file; raises :class:`ScenarioError`."""

    @staticmethod
    def from_toml(
        text: str,
        origin: str = "<text>",
        base_dir: str | PathLike[str] | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> Scenario:
        """Read a scenario from text; files that it names are relative to `base_dir`.

        Messages call the text `origin`. Raises :class:`ScenarioError`.
        """

    def with_overrides(self, overrides: Mapping[str, Any]) -> Scenario:
        """Return the same scenario with more overrides by dotted key; later ones win."""

    def to_toml(self, *, standalone: bool = False) -> str:
        """Return the resolved scenario, every default written out.

        With `standalone`, files that it names are named by absolute paths.
        """

    def check(self) -> ScenarioCheck:
        """Return what is known before a run: sizes, routing, deadlock check, estimated cost."""

    def opensm_options(self) -> str:
        """Return the congestion control as options of OpenSM's configuration file."""

    @property
    def name(self) -> str:
        """The scenario's name, or that of its file."""

    @property
    def text(self) -> str:
        """The text that it was read from, without the overrides."""

    @property
    def origin(self) -> str:
        """Where it was read from, as in messages."""

    @property
    def base_dir(self) -> PathLike[str]:
        """Folder of the files that the scenario names."""

    @property
    def overrides(self) -> list[tuple[str, str]]:
        """The overrides in force, as texts, in order."""

    @property
    def seed(self) -> int:
        """The seed of all randomness."""

    @property
    def duration_ns(self) -> int:
        """Simulated time at which the run ends, in nanoseconds."""

@final
class Run:
    """A finished run; :class:`silvan.Result` is made from it."""

    @property
    def summary(self) -> Summary:
        """Totals and averages."""

    @property
    def table_names(self) -> list[str]:
        """Names of the tables."""

    def table(self, name: str) -> dict[str, ArrayView | tuple[ArrayView, list[str]]]:
        """Return the columns of a table; names as codes and list of names."""

    @property
    def account(self) -> list[str]:
        """What happened, in sentences."""

    @property
    def warnings(self) -> list[str]:
        """Keys of the scenario without effect, and limits that were reached."""

    @property
    def wall_s(self) -> float:
        """Wall time in seconds, building the network included."""

@final
class ArrayView:
    """A numeric column that `numpy.asarray` reads in place. Read-only."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    def __len__(self) -> int: ...

def run(scenario: Scenario, progress: Callable[[int, int, int], object] | None = None) -> Run:
    """Run a scenario to its end with the GIL released.

    `progress(simulated_ns, end_ns, events)` is called at most five times a second, and once
    more when the run is interrupted.
    """

def schema() -> str:
    """Return the JSON Schema of scenario files."""

def fluid(scenario: Scenario) -> Fluid:
    """Return the fluid rates of a scenario's flows, and the ends of flows with a total."""

def fabric_check(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    tables: str | PathLike[str] | None = None,
    default_rate: str | None = None,
) -> FabricCheck:
    """Check a real fabric: routes of all pairs, load per link, deadlock lane by lane.

    `paths` are files and folders of it; `tables` names the forwarding tables, where there are several.
    """

def fabric_ibdmchk(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    tables: str | PathLike[str] | None = None,
    default_rate: str | None = None,
) -> dict[str, str]:
    """Return a real fabric as the files that `ibdmchk` reads: text by file name."""

def fabric_route(
    topology: str | PathLike[str], routing: str | None = None, default_rate: str | None = None
) -> tuple[str, str]:
    """Return forwarding tables and network of a fabric, or of a scenario's (`.toml`).

    The tables are in the format of `opensm-lfts.dump`, the network in that of `ibnetdiscover`.
    Without `routing`, the tables are those of the scenario, or what suits the fabric.
    """

def contention(
    topology: str,
    routing: str,
    permutations: int,
    seed: int,
    first: int = 0,
    cache_entries: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> dict[str, list[Any]]:
    """Set random permutations up on a tree (JSON) with the GIL released.

    `progress(done)` is called at most five times a second.
    """

def trace_check(path: str | PathLike[str], request: str, stream: bool) -> TraceCheck:
    """Read a trace and run it without a network, or only read it; `request` is JSON."""

def trace_convert(
    path: str | PathLike[str], request: str, out: str | PathLike[str], binary: bool
) -> WrittenTrace:
    """Read a trace and write it as GOAL."""

def trace_generate(
    kind: str, sizes: str, request: str, out: str | PathLike[str], binary: bool
) -> WrittenTrace:
    """Generate a trace from sizes and write it as GOAL: `kernel`, `collective` or `transformer`."""
