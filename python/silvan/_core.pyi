"""The extension module, written in Rust."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, TypedDict, final

from silvan.types import FabricCheck, Fluid, ScenarioCheck, Summary, TraceCheck, WrittenTrace

__version__: str

class SilvanError(Exception):
    """Base class of all errors that Silvan raises."""

class ScenarioError(SilvanError):
    """A scenario is invalid. The message contains the position, the fault and the valid values."""

class ModelError(SilvanError):
    """A run cannot be built, or stopped because of an error in the model."""

class FabricError(SilvanError):
    """The files of a real fabric are wrong or inconsistent."""

class TraceError(SilvanError):
    """A trace is invalid. The message contains the position, the fault and the valid values."""

@final
class Scenario:
    """A validated scenario: what is simulated, and how. Immutable.

    There is no constructor. ``Scenario.load("testbed.toml")`` reads a file, ``Scenario.from_toml(text)``
    reads text, and ``silvan.scenarios.load("testbed")`` loads a scenario that comes with Silvan.

    Overrides map dotted keys to values: ``{"congestion.mechanism": "ib-cc", "seed": 7}``. Strings are parsed
    like values after ``--set`` on the command line, so ``"1 ms"`` is a quantity.
    """

    @staticmethod
    def load(path: str | PathLike[str], overrides: Mapping[str, Any] | None = None) -> Scenario:
        """Read a scenario file; raises :class:`ScenarioError`."""

    @staticmethod
    def load_controlled(path: str | PathLike[str], overrides: Mapping[str, Any] | None = None) -> Scenario:
        """Read a scenario for :class:`silvan.ControlledRun`; if nothing in it sends, the program may send."""

    @staticmethod
    def from_toml(
        text: str,
        origin: str = "<text>",
        base_dir: str | PathLike[str] | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> Scenario:
        """Read a scenario from text; relative file names in it start from `base_dir`.

        `origin` is the name of the text in error messages. Raises :class:`ScenarioError`.
        """

    def with_overrides(self, overrides: Mapping[str, Any]) -> Scenario:
        """Return a copy of the scenario with more overrides; these take precedence over earlier ones."""

    def to_toml(self, *, standalone: bool = False) -> str:
        """Return the resolved scenario in TOML, with all defaults written out.

        With `standalone`, the names of other files become absolute paths.
        """

    def check(self) -> ScenarioCheck:
        """Return the facts that do not need a run: sizes, routing, deadlock check, estimated cost."""

    def routes(self) -> FlowRoutes:
        """Return the routes of flows; raises :class:`FabricError` if they depend on the load."""

    def opensm_options(self) -> str:
        """Return the scenario's congestion control settings as options of OpenSM's configuration file."""

    @property
    def name(self) -> str:
        """The name in the scenario, or the name of its file."""

    @property
    def text(self) -> str:
        """The text from which the scenario was read, without the overrides."""

    @property
    def origin(self) -> str:
        """The name of the scenario's source in error messages."""

    @property
    def base_dir(self) -> PathLike[str]:
        """Relative file names in the scenario start from this folder."""

    @property
    def overrides(self) -> list[tuple[str, str]]:
        """The overrides and their values as strings, in the order in which they were given."""

    @property
    def seed(self) -> int:
        """The seed of all random streams."""

    @property
    def duration_ns(self) -> int:
        """Simulated time at which the run ends, in nanoseconds."""

@final
class Run:
    """A finished run. :class:`silvan.Result` wraps it."""

    @property
    def summary(self) -> Summary:
        """Totals and averages."""

    @property
    def table_names(self) -> list[str]:
        """Names of the tables."""

    def table(self, name: str) -> dict[str, ArrayView | tuple[ArrayView, list[str]]]:
        """Return the columns of a table. A column of names is an array of codes and the list of names."""

    @property
    def account(self) -> list[str]:
        """An account of the run, as a list of sentences."""

    @property
    def warnings(self) -> list[str]:
        """Keys of the scenario that had no effect, and limits that the run reached."""

    @property
    def parts(self) -> list[tuple[int, str, float]]:
        """The parts of the run that were simulated without interruption, in order.

        Each has the simulated time at which it begins in ns, its build, and its wall-clock time in seconds,
        including the time to build the network.
        """

@final
class ArrayView:
    """A read-only numeric column that `numpy.asarray` wraps without a copy."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    def __len__(self) -> int: ...

def run(
    scenario: Scenario,
    build: str,
    progress: Callable[[int, int, int], object] | None = None,
    viewer: object | None = None,
    checkpoints: object | None = None,
    resume: str | PathLike[str] | None = None,
    other_build: bool = False,
) -> Run:
    """Run a scenario to its end. The GIL is released during the run.

    `progress(simulated_ns, end_ns, events)` is called at most five times a second, and once more if the run
    is interrupted. `checkpoints` states when to save the run (:class:`silvan.Checkpoints`), and `resume` is a
    checkpoint of the same scenario, which another build may have written if `other_build` is set. `build`
    names this build in checkpoints.
    """

@final
class Controlled:
    """A run that the caller controls; :class:`silvan.ControlledRun` describes it."""

    def __new__(cls, scenario: Scenario) -> Controlled: ...
    @property
    def hosts(self) -> int: ...
    @property
    def may_send(self) -> bool: ...
    @property
    def now_ps(self) -> int: ...
    @property
    def next_ps(self) -> int | None: ...
    def bandwidth_gbit_s(self, host: int) -> float: ...
    def quantity(self, name: str, host: int) -> float: ...
    def send(
        self,
        src: int,
        dst: int,
        bytes: int,
        tag: int,
        sl: int,
        room: int | None,
        sent: Callable[[], object] | None,
        delivered: Callable[[], object] | None,
    ) -> bool: ...
    def recv(self, dst: int, src: int, bytes: int, tag: int, arrived: Callable[[], object]) -> None: ...
    def at(self, time_ps: int, function: Callable[[], object]) -> None: ...
    def stop(self) -> None: ...
    def next_call(self, until_ps: int | None) -> Callable[[], object] | None: ...
    def finish(self) -> Run: ...

@final
class Recording:
    """What a run has recorded; `Delays` takes it."""

    @property
    def channels(self) -> list[str]:
        """Names of the directions of links, by number."""

    @property
    def is_full(self) -> bool:
        """Whether the recording reached its limit, so that its end is missing."""

class Circumstances(TypedDict):
    """What the scenario of a recording states about its network."""

    #: The times (ps) in which links are down, by channel, in order.
    down: dict[int, list[tuple[int, int]]]
    #: Whether packets to a host may take one of several paths.
    has_paths: bool
    #: Whether each input of a switch has one queue.
    has_one_queue: bool
    #: Whether an input sends to one output at a time.
    shares_inputs: bool
    #: Whether the reaction asks receivers for permission.
    requests_grants: bool
    #: Whether receivers discard packets that arrive out of order (go-back-n).
    goes_back: bool
    #: Whether the reaction measures delays or loads.
    senses_delays: bool

@final
class Delays:
    """A recording with what the scenario states about its network.

    A flow is the number of the sending host, that of the traffic source in it, and that of the receiving
    host. Times are picoseconds.
    """

    def __new__(cls, recording: Recording, until_ps: int, circumstances: Circumstances) -> Delays:
        """Take a recording, which ends at `until_ps`.

        Raises `SilvanError` if the recording has been taken before.
        """

    @property
    def hosts(self) -> list[str]:
        """Names of hosts, by number."""

    def activity(self, ends_ps: list[int]) -> dict[str, ArrayView]:
        """Return what the sending port of each channel did in intervals that end at given times.

        The columns `packets`, `bytes`, `notifications` and `waiting` (in picoseconds) have a row per interval
        and channel, in this order. Packets count when they start, and bytes when they are sent.
        """

    def flows(self) -> list[tuple[int, int, int]]:
        """Return all flows that have packets, including those of answers."""

    def class_of(self, flow: tuple[int, int, int]) -> int | None:
        """Return the number of the class of a flow; `None` if it has no packets."""

    def messages(self, flow: tuple[int, int, int]) -> list[tuple[int, int, int, int]]:
        """Return the messages of a flow that were recorded from their first packet to their delivery.

        Each is its start, its end, its bytes, and the time that it takes alone.
        """

    def slowest(
        self, sender: int | None, receiver: int | None, most: int
    ) -> list[tuple[tuple[int, int, int], int, tuple[int, int, int, int]]]:
        """Return the `most` messages with the longest delays, the longest first.

        Each is its flow, its number, and its row in `messages`. Numbers of hosts restrict them.
        """

    def explain(self, flow: tuple[int, int, int], number: int) -> Explanation:
        """Explain a message by its number in `messages`.

        Raises `SilvanError` if there is none, or if the pieces do not add up, an error in Silvan.
        """

    def explain_step(self, job: tuple[int, str], start_ps: int, end_ps: int) -> Explanation:
        """Explain a part of a job, which has a number and a name, to the last event that is not later.

        Raises `SilvanError` if there is no such event, or if the pieces do not add up, an error in Silvan.
        """

@final
class Explanation:
    """The causes of the duration of a message, a job or an operation."""

    @property
    def end_ps(self) -> int:
        """End."""

    @property
    def ideal_ps(self) -> int:
        """The duration without delays."""

    def causes(
        self,
    ) -> list[
        tuple[
            str,
            str,
            int,
            list[tuple[tuple[int, int, int], int]],
            list[str],
            tuple[int, str, bool] | None,
            str | None,
        ]
    ]:
        """Return the causes by share, the largest first.

        Each is its label, place, picoseconds, owners with their picoseconds, chain of channels, signal of a
        reaction (its time, its channel, and whether a packet was marked), and kind of a loss.
        """

    def ranks(self) -> list[tuple[int, int, int, int]]:
        """Return what each rank did that posts a message, of a job or an operation.

        Each is the rank, when it posted its first message, and for how long it was busy and waited from then
        to its last event.
        """

    def pieces(
        self,
    ) -> list[
        tuple[int, int, str, str, tuple[int, int, int] | None, list[str], tuple[int, str, bool] | None]
    ]:
        """Return what happened when, in order, without gaps.

        Each is its start, end, label, place, owner, chain of channels, and signal; see `causes`.
        """

def record(
    scenario: Scenario,
    from_ps: int,
    until_ps: int,
    most: int,
    progress: Callable[[int, int, int], object] | None = None,
) -> Recording:
    """Run a scenario until `until_ps`, and record up to `most` departures of packets from `from_ps` on.

    The GIL is released during the run. `progress` is called like that of `run`.
    """

def tables_of_results() -> list[dict[str, Any]]:
    """Return the tables of results, in groups of which a run has either all or none.

    A group states in `when` which runs have its `tables`; `when` is empty for the tables of all runs.
    """

def schema_of_summary() -> dict[str, Any]:
    """Return the JSON Schema of the summary of a run."""

def checkpoint_scenario(path: str | PathLike[str], build: str, other_build: bool = False) -> Scenario:
    """Return the scenario of a checkpoint, as it was read for the run.

    `build` names this build. Raises `ScenarioError` for another build, unless `other_build` is set.
    """

def schema() -> str:
    """Return the JSON Schema of scenario files."""

def fluid(scenario: Scenario) -> Fluid:
    """Return the fluid rates of all flows, and the completion times of flows that have a total."""

def fabric_check(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    tables: str | PathLike[str] | None = None,
    default_rate: str | None = None,
) -> FabricCheck:
    """Check a real fabric: routes of all pairs, load of each link, possible deadlocks on each lane.

    `paths` lists the files and folders of the fabric. `tables` selects the forwarding tables if the fabric
    has several.
    """

def fabric_ibdmchk(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    tables: str | PathLike[str] | None = None,
    default_rate: str | None = None,
) -> dict[str, str]:
    """Return the files that `ibdmchk` reads, as a mapping from file name to text."""

def fabric_route(
    topology: str | PathLike[str],
    routing: str | None = None,
    default_rate: str | None = None,
    roots: Sequence[str] | None = None,
) -> tuple[str, str, list[str], list[str]]:
    """Return forwarding tables, the network, what is wrong with the routes, and notes about the file.

    The tables have the format of `opensm-lfts.dump`, the network has that of `ibnetdiscover`. Without
    `routing`, the scenario's routing is used, or a routing that suits the fabric. `roots` are the switches at
    the top of up*/down* routing.
    """

def fabric_without(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    tables: str | PathLike[str] | None,
    default_rate: str | None,
    hosts: set[str],
) -> tuple[str, str]:
    """Return the network of a fabric without some hosts, and its tables.

    The formats are those of `ibnetdiscover` and of `opensm-lfts.dump`.
    """

class FlowRoutes:
    """The routes of the flows of a scenario."""

    @property
    def hosts(self) -> list[str]:
        """The names of the hosts, in the order of their numbers."""
    @property
    def links(self) -> list[str]:
        """The names of the directed links, in the order of their numbers."""
    @property
    def rates_gbit_s(self) -> list[float]:
        """The rates of the directed links in Gbit/s."""
    @property
    def are_between_switches(self) -> list[bool]:
        """Whether each directed link connects two switches."""
    @property
    def division(self) -> str | None:
        """How packets deviate from the tables, in words; None if the tables determine the routes."""
    @property
    def machines(self) -> list[tuple[str, list[int]]] | None:
        """The names of hosts with several ports, and the numbers of their ports; None if there are none."""
    def port_pairs(
        self, machines: Sequence[int], sources: Sequence[int], destinations: Sequence[int]
    ) -> tuple[list[int], list[int]]:
        """Return the ports that send and receive messages of jobs, by their numbers in `hosts`.

        `machines` has the number of the machine of each rank; `sources` and `destinations` are ranks.
        Messages between ranks of a machine have none.
        """
    def ways(
        self, sources: Sequence[int], destinations: Sequence[int], connections: Sequence[int] | None = None
    ) -> tuple[list[int], list[int], list[float]]:
        """Return the links of flows as columns: number of the flow, number of the link, share of packets.

        `connections` has the number of the traffic source of each flow in its host.
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
    """Count how the flows of random permutations on a tree (JSON) share links. The GIL is released.

    `progress(done)` is called at most five times a second.
    """

def trace_check(path: str | PathLike[str], request: str, stream: bool) -> TraceCheck:
    """Read a trace and, unless the request forbids it, run it without a network. `request` is JSON."""

def trace_convert(
    path: str | PathLike[str], request: str, out: str | PathLike[str], binary: bool
) -> WrittenTrace:
    """Read a trace and write it as GOAL."""

def trace_generate(
    kind: str, sizes: str, request: str, out: str | PathLike[str], binary: bool
) -> WrittenTrace:
    """Generate a `kernel`, `collective` or `transformer` trace of the given sizes, and write it as GOAL."""
