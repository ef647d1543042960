"""What to paste: the `vllm serve` line of a plan, and a pod that runs it.

Flags that the plan assumed stand there too, so that what is started is what was planned. Whoever calls this has made sure
that the plan fits. Source of the flags: vLLM 0.33 engine/arg_utils.py; of the images: docs.vllm.ai, using Docker.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from kvplan.arch.formats import KvFormat
from kvplan.arch.model import Model
from kvplan.arch.parallel import Parallel
from kvplan.engines.base import Options
from kvplan.engines.vllm.blocks.cells import flag as flag_of
from kvplan.engines.vllm.blocks.drafts import draft_layers
from kvplan.engines.vllm.memory.adapters import TARGETED, lora_rank
from kvplan.engines.vllm.policy import Vllm
from kvplan.engines.vllm.settings import Settings, settings
from kvplan.engines.vllm.starts import quantizers
from kvplan.engines.vllm.starts.devices import platform_of
from kvplan.engines.vllm.tables.choices import CHOICES, taken
from kvplan.engines.vllm.tables.devices import Platform
from kvplan.engines.vllm.tables.flags import DRAFT_METHODS, FLAGS, NEGATED
from kvplan.engines.vllm.tables.spans import first, holds, last
from kvplan.engines.vllm.tables.versions import rules, text
from kvplan.errors import Unsupported, UsageError
from kvplan.hardware.gpu import Gpu

Flag = tuple[str, str | None]
"""A flag and its value; None for a switch."""

LONGER = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
UNLOCK = "--allow-deprecated-quantization"
NODE = 8
"""GPUs that one pod can have; more are more than one node has."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A plan as vLLM is told it. name: the model, as vLLM would find it. kv: the format asked for, None for auto.

    stretched: whether the length is beyond what the config justifies, which vLLM takes only when it is told to. remarks:
    what should be known before this is run. drafts: who guesses tokens where no draft model is given: the model's own
    prediction layers (mtp), or n-grams of the text where it has none. own: cache formats that `auto` would be too.
    family: the model's type. unlocks: flags without which the checkpoint isn't loaded.
    """

    name: str
    engine: Vllm
    gpu: Gpu
    parallel: Parallel
    kv: KvFormat | None
    options: Options
    chosen: Settings
    revision: str | None = None
    stretched: bool = False
    remarks: tuple[str, ...] = ()
    drafts: str = "mtp"
    own: tuple[str, ...] = ()
    family: str = ""
    unlocks: tuple[Flag, ...] = ()

    @property
    def utilization(self) -> float:
        """Share of memory that vLLM may use."""
        return self.options.utilization or rules(self.engine.release).utilization


def launch(
    engine: Vllm,
    model: Model,
    gpu: Gpu,
    parallel: Parallel,
    kv: KvFormat | None,
    options: Options,
    context: int,
    name: str,
    remarks: tuple[str, ...] = (),
) -> Launch:
    """What vLLM is to be told. name: the model on the Hub or its folder."""
    chosen = settings(model, gpu, parallel, options, context, rules(engine.release))
    longest = engine.longest_context(model)
    stretched = longest is not None and context > longest
    drafts = "mtp" if draft_layers(model) else "ngram"
    chosen_format = engine.chosen_format(model, gpu)
    own = () if chosen_format is None else (spelled(chosen_format),)
    unlocks: tuple[Flag, ...] = ((UNLOCK, None),) if quantizers.deprecated(model, engine.release) else ()
    return Launch(
        name,
        engine,
        gpu,
        parallel,
        kv,
        options,
        chosen,
        model.origin.revision,
        stretched,
        (*remarks, *((CODE,) if "own_code" in model.traits else ())),
        drafts,
        own,
        model.family,
        unlocks,
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
    name, release = flag[0].removeprefix("--"), told.engine.release
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
        having = text(end) if end is not None and end < told.engine.release else text(first(written))
    return UsageError(
        f"vLLM {told.engine.version} {what}",
        cause="what was planned can't be told to that release",
        hint=f"--engine vllm@{having} has it" if having else "leave the option out",
    )


def _drafts(told: Launch) -> str:
    """The method of a checkpoint's own prediction layers: `mtp`, in releases before it the one for DeepSeek's.

    Raises: UsageError.
    """
    if told.drafts != "mtp" or holds(DRAFT_METHODS["mtp"], told.engine.release):
        return told.drafts
    if told.family.startswith("deepseek") and holds(DRAFT_METHODS["deepseek_mtp"], told.engine.release):
        return "deepseek_mtp"
    raise _unsaid("doesn't draft by method mtp", DRAFT_METHODS["mtp"], told)


def arguments(told: Launch) -> tuple[str, ...]:
    """The words after `vllm serve`."""
    return (told.name, *(word for flag in flags(told) for word in _words(flag)))


LISTS = ("--lora-target-modules",)
"""Flags that take several words."""


def _words(flag: Flag) -> tuple[str, ...]:
    """A flag and its values, as a shell would hand them over."""
    name, value = flag
    values = () if value is None else value.split() if name in LISTS else (value,)
    return (name, *values)


CODE = "The checkpoint brings code of its own: if vLLM asks for it, and you trust it, add --trust-remote-code."


def serve(told: Launch) -> str:
    """The command, one flag a line."""
    told_to = f"{LONGER}=1 " if told.stretched else ""
    lines = [f"{told_to}vllm serve {shlex.quote(told.name)}"]
    lines += [shlex.join(_words(flag)) for flag in flags(told)]
    return _comments(told.remarks) + " \\\n  ".join(lines) + "\n"


def _comments(remarks: tuple[str, ...]) -> str:
    """Each remark as one line that shells and YAML pass over."""
    return "".join(f"# {' '.join(remark.split())}\n" for remark in remarks)


def pod(told: Launch) -> str:
    """A Kubernetes pod with the arguments and the GPUs of the plan.

    Raises: UsageError for more GPUs than a node has; Unsupported for one that the release doesn't run on.
    """
    count, platform = told.parallel.gpus, platform_of(told.gpu, told.engine.release)
    if count > NODE:
        raise UsageError(
            f"a pod can't have the {count} GPUs of this plan",
            cause=f"a node has {NODE}",
            hint="--emit vllm prints the command; run it under Ray or a LeaderWorkerSet",
        )
    if platform.image is None:
        raise Unsupported(f"vLLM publishes no image for {told.gpu.id}", hint="--emit vllm prints the command")
    words = "\n".join(f"        - {json.dumps(word)}" for word in arguments(told))
    return _comments(told.remarks) + POD.format(
        name="vllm",
        env=STRETCHED_ENV if told.stretched else "",
        image=f"{platform.image}:v{text(told.engine.release)}",
        words=words,
        resource=_resource(told.gpu, platform),
        count=count,
        comment=f"{told.name} on {count} x {told.gpu.id}, {told.chosen.length:,} tokens a request, planned for vLLM {told.engine.version}",
    )


POD = """\
# {comment}
apiVersion: v1
kind: Pod
metadata:
  name: {name}
spec:
  containers:
    - name: {name}
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


STRETCHED_ENV = f"""\
      env:
        - name: {LONGER}
          value: "1"
"""


def _resource(gpu: Gpu, platform: Platform) -> str:
    """What a pod asks for; a MIG slice is a resource of its own."""
    profile = gpu.id.partition(":")[2]
    return f"nvidia.com/mig-{profile}" if gpu.mig_of is not None and profile else platform.resource


def _model(told: Launch) -> Iterator[Flag]:
    if told.revision is not None:
        yield "--revision", told.revision
    yield "--max-model-len", str(told.chosen.length)
    yield from told.unlocks
    if not told.options.graphs:
        yield "--enforce-eager", None


def _parallel(told: Launch) -> Iterator[Flag]:
    sizes = (
        ("--tensor-parallel-size", told.parallel.tp),
        ("--pipeline-parallel-size", told.parallel.pp),
        ("--data-parallel-size", told.parallel.dp),
        ("--decode-context-parallel-size", told.parallel.dcp),
    )
    for flag, size in sizes:
        if size > 1:
            yield flag, str(size)
    if told.parallel.ep > 1:
        yield "--enable-expert-parallel", None


def _cache(told: Launch) -> Iterator[Flag]:
    options = told.options
    if options.kv_memory is not None:
        yield "--kv-cache-memory-bytes", str(options.kv_memory)
    else:
        yield "--gpu-memory-utilization", f"{told.utilization:g}"
    if told.kv is not None:
        yield "--kv-cache-dtype", spelled(told.kv)
    if options.block_size is not None:
        yield "--block-size", str(options.block_size)
    if options.prefix_caching is not None:
        yield "--enable-prefix-caching" if options.prefix_caching else "--no-enable-prefix-caching", None
    if not options.hybrid_manager:
        yield "--disable-hybrid-kv-cache-manager", None


def _scheduler(told: Launch) -> Iterator[Flag]:
    yield "--max-num-batched-tokens", str(told.chosen.tokens)
    yield "--max-num-seqs", str(told.chosen.sequences)
    if told.options.max_num_active_seqs is not None:
        yield "--max-num-active-seqs", str(told.options.max_num_active_seqs)
    if not told.options.async_scheduling:
        yield "--no-async-scheduling", None
    if told.options.max_loras:
        yield "--enable-lora", None
        yield "--max-loras", str(told.options.max_loras)
        yield "--max-lora-rank", str(lora_rank(told.options.max_lora_rank, told.engine.release))
        if told.options.lora_targets is not None and told.engine.release >= TARGETED:
            yield "--lora-target-modules", " ".join(told.options.lora_targets)
    if told.options.speculative_tokens:
        whose = {"method": _drafts(told)} if told.options.draft is None else {"model": told.options.draft}
        drafts = {**whose, "num_speculative_tokens": told.options.speculative_tokens}
        yield "--speculative-config", json.dumps(drafts)


spelled = flag_of
"""The value of --kv-cache-dtype."""
