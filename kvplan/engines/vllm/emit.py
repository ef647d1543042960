"""What to paste: the `vllm serve` line of a plan, and a pod that runs it.

Flags that the plan assumed stand there too, so that what is started is what was planned. Whoever calls this has made sure
that the plan fits. Source of the flags: vLLM 0.33 engine/arg_utils.py; of the images: docs.vllm.ai, using Docker.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kvplan.arch.traits import OWN_CODE
from kvplan.engines.base import Served, Setup
from kvplan.engines.vllm.blocks.cells import flag as flag_of
from kvplan.engines.vllm.blocks.drafts import has_drafts
from kvplan.engines.vllm.formats import chosen_format
from kvplan.engines.vllm.memory.adapters import TARGETED, lora_rank
from kvplan.engines.vllm.settings import Settings
from kvplan.engines.vllm.started import Started
from kvplan.engines.vllm.starts import quantizers
from kvplan.engines.vllm.starts.devices import platform_of
from kvplan.engines.vllm.tables.choices import CHOICES, taken
from kvplan.engines.vllm.tables.devices import Platform
from kvplan.engines.vllm.tables.flags import DRAFT_METHODS, FLAGS, NEGATED
from kvplan.engines.vllm.tables.spans import first, holds, last
from kvplan.engines.vllm.tables.variables import AITER, LONGER, RUNNER
from kvplan.engines.vllm.tables.versions import Version, text
from kvplan.errors import Unsupported, UsageError
from kvplan.hardware.gpu import Gpu

Flag = tuple[str, str | None]
"""A flag and its value; None for a switch."""

UNLOCK = "--allow-deprecated-quantization"
WHOLE: Flag = ("--no-enable-chunked-prefill", None)
WHOLE_BEFORE: Flag = ("--enable-chunked-prefill", "false")
"""How prompts are kept whole, and how in releases without that flag."""

NODE = 8
"""GPUs that one pod can have; more are more than one node has."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A plan as vLLM is told it.

    drafts: who guesses tokens where no draft model is given: the model's own prediction layers (mtp), or n-grams of the text
    where it has none. own: cache formats that `auto` would be too. unlocks: flags without which the checkpoint isn't loaded.
    """

    started: Started
    served: Served
    drafts: str
    own: tuple[str, ...]
    unlocks: tuple[Flag, ...]

    @property
    def setup(self) -> Setup:
        """What was planned."""
        return self.started.setup

    @property
    def chosen(self) -> Settings:
        """Every flag resolved."""
        return self.started.made.settings

    @property
    def release(self) -> Version:
        """The release that is told."""
        return self.started.release

    @property
    def stretched(self) -> bool:
        """Whether the length is beyond what the config justifies, which vLLM takes only when it is told to."""
        return self.started.excess is not None

    @property
    def code(self) -> tuple[str, ...]:
        """What to know of a checkpoint with code of its own."""
        return (CODE,) if OWN_CODE in self.setup.model.traits else ()

    @property
    def utilization(self) -> float:
        """Share of memory that vLLM may use."""
        return self.setup.options.utilization or self.started.made.rules.utilization


def launch(started: Started, served: Served) -> Launch:
    """What vLLM is to be told.

    Raises: UsageError for what more than one value of a flag may mean.
    """
    if started.setup.options.connected:
        raise UsageError(
            "connected can't be told to vLLM",
            cause="the plan doesn't say which KV connector moves the cache",
            hint="leave it out, and add vLLM's --kv-transfer-config to what is printed",
        )
    model, release = started.setup.model, started.release
    chosen = chosen_format(model, started.setup.gpu, started.made.rules)
    return Launch(
        started=started,
        served=served,
        drafts="mtp" if has_drafts(model) else "ngram",
        own=() if chosen is None else (spelled(chosen),),
        unlocks=((UNLOCK, None),) if quantizers.deprecated(model, release) else (),
    )


def flags(told: Launch) -> tuple[Flag, ...]:
    """Every flag, in the order of its help.

    Raises: UsageError for what the release can't be told.
    """
    every = (*_model(told), *_parallel(told), *_cache(told), *_scheduler(told))
    return tuple(flag for flag in every if _says(flag, told))


NEEDLESS = ("no-async-scheduling", "disable-hybrid-kv-cache-manager", "no-enable-prefix-caching")
"""Flags that switch off what releases without them haven't."""


def _says(flag: Flag, told: Launch) -> bool:
    """Whether a flag is to be printed.

    Raises: UsageError for one that the release doesn't know, or a value it doesn't take.
    """
    name, release = flag[0].removeprefix("--"), told.release
    plain = name.removeprefix("no-")
    known = FLAGS[plain] if plain == name else NEGATED[plain]
    if not holds(known, release):
        if name in NEEDLESS and release < first(known):
            return False
        raise _unsaid(f"has no flag {flag[0]}", known, told)
    if flag[1] is None or taken(name, flag[1], release):
        return True
    if name == "kv-cache-dtype" and flag[1] in told.own:
        return False
    raise _unsaid(f"doesn't take {flag[0]} {flag[1]}", CHOICES[name].get(flag[1], ""), told)


def _unsaid(what: str, written: str, told: Launch) -> UsageError:
    having = ""
    if written:
        end = last(written)
        having = text(end) if end is not None and end < told.release else text(first(written))
    return UsageError(
        f"vLLM {text(told.release)} {what}",
        cause="what was planned can't be told to that release",
        hint=f"--engine vllm@{having} has it" if having else "leave the option out",
    )


BEFORE_MTP: dict[str, tuple[str, Version]] = {
    "deepseek_v3": ("deepseek_mtp", (0, 9, 0)),
    "mimo": ("deepseek_mtp", (0, 10, 0)),
    "ernie4_5_moe": ("ernie_mtp", (0, 10, 2)),
    "qwen3_next": ("qwen3_next_mtp", (0, 10, 2)),
}
"""By type of the language model: the method where there is no `mtp` yet, and since when it needs no draft model's name.

Source: SpeculativeConfig.__post_init__ of vLLM 0.9.0 to 0.10.2, config.py and config/__init__.py."""


def _drafts(told: Launch) -> str:
    """The method of a checkpoint's own prediction layers: `mtp`, in releases before it the one of its type.

    Raises: UsageError.
    """
    if told.drafts != "mtp" or holds(DRAFT_METHODS["mtp"], told.release):
        return told.drafts
    method, since = BEFORE_MTP.get(told.setup.model.family, (None, told.release))
    if method is not None and told.release >= since:
        return method
    raise _unsaid("doesn't draft by method mtp", DRAFT_METHODS["mtp"], told)


def arguments(told: Launch) -> tuple[str, ...]:
    """The words after `vllm serve`."""
    return (told.served.name, *(word for flag in flags(told) for word in _words(flag)))


LISTS = ("--lora-target-modules",)
"""Flags that take several words."""


def _words(flag: Flag) -> tuple[str, ...]:
    """A flag and its values, as a shell would hand them over."""
    name, value = flag
    values = () if value is None else value.split() if name in LISTS else (value,)
    return (name, *values)


CODE = "The checkpoint brings code of its own: if vLLM asks for it, and you trust it, add --trust-remote-code."


def variables(told: Launch) -> tuple[tuple[str, str], ...]:
    """What vLLM is told by its environment."""
    options = told.setup.options
    said = (
        (LONGER, True if told.stretched else None),
        (RUNNER, options.second_runner),
        (AITER, options.aiter or None),
    )
    return tuple((name, str(int(value))) for name, value in said if value is not None)


def serve(told: Launch) -> str:
    """The command, one flag a line."""
    told_to = "".join(f"{name}={value} " for name, value in variables(told))
    lines = [f"{told_to}vllm serve {shlex.quote(told.served.name)}"]
    lines += [shlex.join(_words(flag)) for flag in flags(told)]
    return _comments((*told.served.remarks, *told.code)) + " \\\n  ".join(lines) + "\n"


def _comments(remarks: tuple[str, ...]) -> str:
    """Each remark as one line that shells and YAML pass over."""
    return "".join(f"# {' '.join(remark.split())}\n" for remark in remarks)


def pod(told: Launch) -> str:
    """A Kubernetes pod with the arguments and the GPUs of the plan.

    Raises: UsageError for more GPUs than a node has; Unsupported for one that the release doesn't run on.
    """
    gpu = told.setup.named_gpu
    count, platform = told.setup.parallel.gpus, platform_of(gpu, told.release)
    if count > NODE:
        raise UsageError(
            f"a pod can't have the {count} GPUs of this plan",
            cause=f"a node has {NODE}",
            hint="--emit vllm prints the command; run it under Ray or a LeaderWorkerSet",
        )
    if platform.image is None:
        raise Unsupported(f"vLLM publishes no image for {gpu.id}", hint="--emit vllm prints the command")
    words = "\n".join(f"        - {json.dumps(word)}" for word in arguments(told))
    mount = (f"{told.served.name} is a folder of this machine: mount it into the pod.",) if told.served.folder else ()
    return _comments((*told.served.remarks, *mount, *told.code)) + POD.format(
        env=_env(variables(told)),
        image=f"{platform.image}:v{text(told.release)}",
        words=words,
        resource=_resource(gpu, platform),
        count=count,
        comment=f"{told.served.name} on {count} x {gpu.id}, {told.chosen.length:,} tokens a request, planned for vLLM {text(told.release)}",
    )


POD = """\
# {comment}
apiVersion: v1
kind: Pod
metadata:
  name: vllm
spec:
  containers:
    - name: vllm
      image: {image}
      command: [vllm, serve]
      args:
{words}
{env}      ports:
        - containerPort: 8000
      resources:
        limits:
          {resource}: {count}
      volumeMounts:
        - name: shm
          mountPath: /dev/shm
  volumes:
    - name: shm
      emptyDir:
        medium: Memory
"""


def _env(told: tuple[tuple[str, str], ...]) -> str:
    """A container's variables; nothing where there are none."""
    entries = "".join(f'        - name: {name}\n          value: "{value}"\n' for name, value in told)
    return f"      env:\n{entries}" if entries else ""


def _resource(gpu: Gpu, platform: Platform) -> str:
    """What a pod asks for; a MIG slice is a resource of its own."""
    profile = gpu.id.partition(":")[2]
    return f"nvidia.com/mig-{profile}" if gpu.mig_of is not None and profile else platform.resource


def _model(told: Launch) -> Iterator[Flag]:
    revision = told.setup.model.origin.revision
    if revision is not None:
        yield "--revision", revision
    yield "--max-model-len", str(told.chosen.length)
    yield from told.unlocks
    if not told.setup.options.graphs:
        yield "--enforce-eager", None
    if told.setup.options.language_model_only:
        yield "--language-model-only", None
    if told.setup.options.no_media:
        yield "--limit-mm-per-prompt", json.dumps(dict.fromkeys(told.setup.options.no_media, 0))


def _parallel(told: Launch) -> Iterator[Flag]:
    parallel = told.setup.parallel
    sizes = (
        ("--tensor-parallel-size", parallel.tp),
        ("--pipeline-parallel-size", parallel.pp),
        ("--data-parallel-size", parallel.dp),
        ("--decode-context-parallel-size", parallel.dcp),
    )
    for flag, size in sizes:
        if size > 1:
            yield flag, str(size)
    if parallel.ep > 1:
        yield "--enable-expert-parallel", None
    if told.setup.options.all2all_backend is not None:
        yield "--all2all-backend", told.setup.options.all2all_backend


def _cache(told: Launch) -> Iterator[Flag]:
    options = told.setup.options
    if options.kv_memory is not None:
        yield "--kv-cache-memory-bytes", str(options.kv_memory)
    else:
        yield "--gpu-memory-utilization", f"{told.utilization:g}"
    if told.setup.kv is not None:
        yield "--kv-cache-dtype", spelled(told.setup.kv)
    if options.block_size is not None:
        yield "--block-size", str(options.block_size)
    if options.attention_backend is not None:
        yield "--attention-backend", options.attention_backend
    if options.prefix_caching is not None:
        yield "--enable-prefix-caching" if options.prefix_caching else "--no-enable-prefix-caching", None
    if not options.hybrid_manager:
        yield "--disable-hybrid-kv-cache-manager", None


def _scheduler(told: Launch) -> Iterator[Flag]:
    yield "--max-num-batched-tokens", str(told.chosen.tokens)
    yield "--max-num-seqs", str(told.chosen.sequences)
    options = told.setup.options
    if options.max_num_active_seqs is not None:
        yield "--max-num-active-seqs", str(options.max_num_active_seqs)
    if not options.chunked_prefill:
        yield WHOLE if holds(NEGATED["enable-chunked-prefill"], told.release) else WHOLE_BEFORE
    if not options.async_scheduling:
        yield "--no-async-scheduling", None
    if options.max_loras:
        yield "--enable-lora", None
        yield "--max-loras", str(options.max_loras)
        yield "--max-lora-rank", str(lora_rank(options.max_lora_rank, told.release))
        if options.lora_targets is not None and told.release >= TARGETED:
            yield "--lora-target-modules", " ".join(options.lora_targets)
    if options.speculative_tokens:
        weights = told.setup.model.weights
        drafter = None if weights is None else weights.drafter
        whose = {"method": _drafts(told)} if drafter is None else {"model": drafter}
        drafts = {**whose, "num_speculative_tokens": options.speculative_tokens}
        yield "--speculative-config", json.dumps(drafts)


spelled = flag_of
"""The value of --kv-cache-dtype."""


FORMS: dict[str, Callable[[Launch], str]] = {"vllm": serve, "k8s": pod}
"""By what is typed after --emit."""


@dataclass(frozen=True, slots=True)
class Launcher:
    """What is written of a plan, in every form."""

    started: Started

    @property
    def forms(self) -> tuple[str, ...]:
        """As typed after --emit."""
        return tuple(FORMS)

    def written(self, form: str, served: Served) -> str:
        """What to paste.

        Raises: UsageError for what the release can't be told; Unsupported for a device that it doesn't run on.
        """
        return FORMS[form](launch(self.started, served))
