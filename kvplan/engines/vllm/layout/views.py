"""What vLLM makes of a checkpoint's tensors: padding, replication, formats of its own, tables it keeps beside them.

The inventory (arch/weights.py) is the checkpoint's; only the differences stand here.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.arch.layers import Attention
from kvplan.arch.model import Model
from kvplan.arch.storage import (
    BF16,
    DTYPES,
    FP16,
    FP32,
    HEADERS_SOURCE,
    MLX_SOURCE,
    Storage,
)
from kvplan.arch.traits import GPTQ_ORDER, OTHER_ACTIVATION
from kvplan.arch.weight import CLOCKED
from kvplan.arch.weights import CAUSAL_MASK, Component, View, Weight
from kvplan.engines.vllm.blocks.specs import aligned
from kvplan.engines.vllm.layout import packed
from kvplan.engines.vllm.layout.experts import BLACKWELL, HOPPER, Kernels, multiples, swizzled
from kvplan.engines.vllm.layout.rocm import apart, wasted
from kvplan.engines.vllm.tables.built import (
    EMBEDDING_EVERYWHERE,
    HEAD_EVERYWHERE,
    OWN_HEAD,
    WIDE_ROUTERS,
    WIDE_ROUTERS_ELSEWHERE,
)
from kvplan.engines.vllm.tables.library import by_library
from kvplan.engines.vllm.tables.spans import holds
from kvplan.engines.vllm.tables.versions import NEWEST, Version
from kvplan.hardware.gpu import Gpu

VOCABULARY_MULTIPLE = 64
"""Rows that vLLM pads embeddings and heads to. Source: vLLM 0.33 layers/vocab_parallel_embedding.py."""

ROUTED = (None, HOPPER, BLACKWELL)
"""Major compute capabilities with kernels for routers in 16 bit that give scores in 32; of a GPU that isn't known, Hopper's."""

MAMBA_1, RATES = frozenset(("mamba", "falcon_mamba", "jamba")), "A_log"
"""Types of Mamba, whose mixers vLLM 0.33 doesn't quantize, with the rates in fp32. Source: layers/mamba/mamba_mixer.py."""

HYPER = ("attn_hc.", "ffn_hc.", "hc_head.")
"""Beginnings of names of hyper-connections, which vLLM 0.33 keeps in fp32. Source: models/deepseek_v4."""

FUSED_KEYS = "indexer.wk"
"""End of the name of an indexer's key projection, which vLLM 0.33 keeps in 16 bit. Source: models/deepseek_v2.py wk_weights_proj."""

OUTRUNNING, OUTRUN_BEFORE = 4, (0, 32, 0)
"""Times that tables of positions which follow a video's clock are longer, and the first release that makes those which can't outrun the
tokens no longer than it must.

Source: layers/rotary_embedding/mrope.py of 0.8 to 0.33, mrope_positions_factor of qwen3_vl.py in 0.32."""

BOTH = ".also_v"
"""End of the name of a key projection that gives the values too, which vLLM 0.33 stores twice (gemma4)."""


def view_of(model: Model, gpu: Gpu | None = None, version: Version = NEWEST) -> View:
    """How vLLM lays out the weights of `model`."""
    return vllm(
        _laid_out_as(model),
        gpu,
        version,
        ordered=GPTQ_ORDER in model.traits,
        method="" if model.weights is None else model.weights.method,
        common=OTHER_ACTIVATION not in model.traits,
        library=by_library(model, version),
    )


def _laid_out_as(model: Model) -> str:
    """The model's type, or one apart where its own layers differ by more than sizes."""
    several = any(isinstance(cache, Attention) and cache.kv_heads > 1 for cache, _ in model.distinct)
    return MANY_KV_HEADS if model.family == "gpt_bigcode" and several else model.family


def vllm(
    family: str,
    gpu: Gpu | None = None,
    version: Version = NEWEST,
    *,
    ordered: bool = False,
    method: str = "",
    common: bool = True,
    library: bool = False,
) -> View:
    """VLLM 0.33's parameters and buffers, in the sizes that a version's kernels on this GPU want.

    ordered: whether GPTQ's inputs were reordered; the index of their groups is kept only then. method: of quantization.
    common: whether the activation is one that every kernel of experts has. library: whether the Transformers library's
    modules run the model: they keep masks, no tables of positions, and split only what has a plan there.
    """
    kernels = Kernels(gpu, version, family, method, common)
    amd = kernels.amd

    def moved(weight: Weight, shard: tuple[int, ...]) -> tuple[int, ...]:
        return apart(weight, shard, version) if amd else shard

    unplanned = library and family in WHOLE_LAYERS

    def shape(weight: Weight, shard: tuple[int, ...]) -> tuple[int, ...]:
        if family in WHOLE_EMBEDDING if weight.component == "embedding" else unplanned and weight.component != "head":
            return weight.shape
        if weight.routed and weight.split is not None and weight.linear:
            width, hidden = multiples(weight.stored, kernels)
            return moved(
                weight, tuple(aligned(size, width if dim == weight.split else hidden) for dim, size in enumerate(shard))
            )
        if pads_blocks(family, weight) and weight.split is not None:
            block = weight.stored.group_rows if weight.split == 0 else weight.stored.group
            return tuple(aligned(size, block if dim == weight.split else 1) for dim, size in enumerate(shard))
        if library and weight.name in WHOLE_MATRICES.get(family, ()):
            return weight.shape
        if times := _longer(weight, version):
            return (times * shard[0], *shard[1:])
        return moved(weight, shard)

    def store(weight: Weight, shard: tuple[int, ...]) -> Storage:
        return (
            _own_format(weight, family, wide_routers=wide_routers)
            or _widened(weight, method)
            or swizzled(weight, shard, kernels)
            or packed.kept(weight, shard, ordered=ordered, marlin=not amd)
        )

    def does(built: Mapping[str, str]) -> bool:
        return holds(built.get(family, ""), version)

    ends: tuple[tuple[Mapping[str, str], Component], ...] = (
        (EMBEDDING_EVERYWHERE, "embedding"),
        (HEAD_EVERYWHERE, "head"),
    )
    everywhere = frozenset(component for built, component in ends if does(built))
    unrouted = amd or kernels.major not in ROUTED
    wide_routers = does(WIDE_ROUTERS) or (unrouted and does(WIDE_ROUTERS_ELSEWHERE))
    return View(
        VOCABULARY_MULTIPLE, everywhere=everywhere, ties=not does(OWN_HEAD), whole_towers=True, tables=lambda weight: (weight.name == CAUSAL_MASK) == library,
        shape=shape, store=store, wasted=(lambda layers, parallel: wasted(layers, parallel, version)) if amd else None,
    )  # fmt: skip


def _longer(weight: Weight, version: Version) -> int:
    """How many times its rows a parameter or a table has; 0 where it has its own."""
    if weight.name == CLOCKED and version < OUTRUN_BEFORE:
        return OUTRUNNING
    return 2 if weight.name.endswith(BOTH) else 0


def _own_format(weight: Weight, family: str, *, wide_routers: bool) -> Storage | None:
    """The format of parameters that vLLM doesn't keep in the checkpoint's; None for the others."""
    if weight.stored.source == MLX_SOURCE or _is_cast(weight) or weight.name.endswith(FUSED_KEYS):
        return BF16
    if family in MAMBA_1 and weight.component == "recurrent":
        if weight.name.endswith(RATES):
            return FP32
        return weight.stored if weight.stored in (BF16, FP16, FP32) else BF16
    wide = (wide_routers and weight.component == "router") or weight.name.startswith(HYPER)
    return FP32 if wide else None


def _widened(weight: Weight, method: str) -> Storage | None:
    """16 bit for what files hold in fewer though the config names no method: vLLM builds matrices of the model's dtype."""
    narrow = weight.stored.source == HEADERS_SOURCE and weight.stored.bits < BF16.bits
    return BF16 if narrow and method in DTYPES else None


def _is_cast(weight: Weight) -> bool:
    """Whether files hold a matrix in 32 bit that is loaded in the model's 16. Source: vLLM 0.33 config/model.py _get_and_verify_dtype."""
    stored = weight.stored
    as_filed = stored.source == HEADERS_SOURCE and stored.bits == FP32.bits
    return as_filed and (weight.linear or weight.component in ("embedding", "head")) and weight.component != "router"


def pads_blocks(family: str, weight: Weight) -> bool:
    """Whether vLLM rounds a rank's share of a matrix up to whole blocks of scales. Source: models/deepseek_v4/nvidia/model.py DeepseekV4MLP."""
    return family == "deepseek_v4" and weight.component == "shared_experts" and weight.stored.group_rows > 1


WHOLE_EMBEDDING = frozenset(("whisper",))
"""Types whose embedding every tensor rank holds whole. Source: vLLM 0.33 model_executor/models/whisper.py, nn.Embedding."""

MANY_KV_HEADS = "gpt_bigcode, a KV head for each query head"

WHOLE_LAYERS = frozenset(("biogpt", "ctrl", MANY_KV_HEADS, "jetmoe", "modernbert-decoder", "persimmon"))
"""Types that vLLM runs through transformers' modules and that state no tensor parallel plan there: each rank holds every
layer whole, but a gated MLP, where one is found.

Source: vLLM 0.33 model_executor/models/transformers/base.py recursive_replace; transformers 5.23 base_model_tp_plan.
"""

WHOLE_MATRICES = {"bitnet": ("mlp.down_proj",), "gpt_bigcode": ("mlp.up_proj", "mlp.up_proj.bias", "mlp.down_proj")}
"""Matrices that a type's tensor parallel plan there leaves whole. Source: transformers 5.23 models/bitnet, base_model_tp_plan."""
