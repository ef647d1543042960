"""Who answers: an engine at one version, and the same engine started with a setup.

    Engine.default_context, longest_context
                       the length it takes when none is given, and the longest it takes at all
    Engine.kv_format   the cache format this engine makes of `auto` or of what was asked
    Engine.contradicts what is stated of a checkpoint that its config says otherwise
    Engine.start       the engine with a setup laid out, or why it wouldn't start, before any memory is counted

    Started.budget     memory -> what is left for the cache, term by term, each low / likely / high
    Started.capacity   cache bytes of each stage -> blocks, tokens, concurrency, longest request; or its refusal
    Started.reserved   bytes one GPU reserves for one sequence
    Started.launcher   who writes down how it is started so

What differs between engines is asked of them here: no other layer compares an engine's name. The register (registry.py)
and an engine's own files are all that one more engine takes, and a table in kvplan.check.budgets.flags if budgets are to say its
own flags; the register has that table's key. Engines are pure functions of a Model and of flags; they never
see files or the clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kvplan.arch.formats import KvFormat
from kvplan.arch.model import Context, Model
from kvplan.engines.base import Budget, Capacity, Excess, Refusal, Served, Setup, Stated, Words

if TYPE_CHECKING:
    from kvplan.hardware.gpu import Gpu


class Launcher(Protocol):
    """Who writes down how an engine is started with a setup."""

    @property
    def forms(self) -> tuple[str, ...]:
        """As typed after --emit."""

    def written(self, form: str, served: Served) -> str:
        """What to paste.

        Raises: UsageError, Unsupported for a plan that can't be told so.
        """


class Started(Protocol):
    """An engine that starts with a setup if there is memory enough."""

    @property
    def setup(self) -> Setup:
        """What it was started with."""

    @property
    def kv(self) -> KvFormat:
        """The cache format in use."""

    def budget(self) -> Budget:
        """Memory left for the cache on the fullest GPU.

        Raises: UsageError if the weights are needed and neither known nor given, or no GPU is named.
        """

    def budget_at(self, tokens: int) -> Budget:
        """The same of a longer or shorter setup, which isn't laid out for it.

        Raises: as budget.
        """

    def capacity(self, kv_bytes: int) -> Capacity | Refusal:
        """What `kv_bytes` of cache memory on each GPU admit."""

    def reserved(self) -> int:
        """Bytes that one sequence of the setup's length takes on the fullest GPU."""

    def utilization(self, concurrency: int, *, likely: bool) -> float | None:
        """The least share of memory with which so many requests of the setup's length fit; None without such a flag.

        likely: by the likely overheads instead of the most there may be.

        Raises: UsageError if no share is enough.
        """

    def cautions(self) -> tuple[str, ...]:
        """Whole sentences: whether it serves the setup in a roundabout way, or perhaps not at all."""

    @property
    def excess(self) -> Excess | None:
        """By what the setup's length is more than the model's own maximum; None where it isn't."""

    @property
    def launcher(self) -> Launcher | None:
        """Who writes down how it is started; None where there is nothing to start."""


class Engine(Protocol):
    """One engine at one version."""

    @property
    def name(self) -> str:
        """As typed after --engine."""

    @property
    def version(self) -> str | None:
        """The version whose rules are used; None for the formula."""

    @property
    def verified(self) -> bool:
        """Whether the rules used are those of the version that was asked for."""

    @property
    def words(self) -> Words:
        """What it and its own things are called."""

    @property
    def allocates(self) -> bool:
        """Whether it takes memory its own way; not the formula, whose sequences take what they hold."""

    def default_context(self, model: Model) -> Context:
        """Tokens of the longest request when nobody says, and why so many; None where they must be given."""

    def longest_context(self, model: Model) -> int | None:
        """The longest that it accepts without being told to ignore the model's own maximum; None for any."""

    def kv_format(self, model: Model, asked: KvFormat | None, gpu: Gpu | None) -> KvFormat:
        """The cache format in use when `asked` (None: auto) is asked for."""

    def unstated(self, model: Model) -> tuple[str, ...]:
        """Fields that nobody states and that its budget would need to be narrow."""

    def lacks_experts(self, model: Model) -> bool:
        """Whether it wouldn't start with expert parallelism switched on, because the model has no experts."""

    def contradicts(self, model: Model, stated: Stated) -> str | None:
        """Why it wouldn't start with what is stated of the model beside what its config says; None where it would, or may."""

    def start(self, setup: Setup) -> Started:
        """The engine with the setup laid out.

        Raises: Unsupported for a model or a GPU that it doesn't serve; UsageError, CannotSplit for flags it doesn't take.
        """
