"""The documents of what kvplan knows: models, GPUs and engines."""

from __future__ import annotations

from kvplan.arch.model import Model
from kvplan.engines.registry import About
from kvplan.hardware.gpu import Fact, Gpu
from kvplan.plan.shapes import attention_label
from kvplan.report.assemble.common import by_field, parameters
from kvplan.report.schema import lists as schema


def listed_model(
    model: Model, aliases: tuple[str, ...], source: str, description: str | None = None
) -> schema.ListedModel:
    """One model."""
    curve = model.curve(model.kv_auto)
    return schema.ListedModel(
        id=model.origin.id,
        aliases=aliases,
        family=model.family,
        max_context=model.context.tokens,
        attention=attention_label(model),
        bytes_per_token=curve.bytes_per_token,
        fixed_bytes_per_sequence=curve.fixed_bytes,
        parameters=parameters(model),
        source=source,
        description=description,
    )


def listed_gpu(gpu: Gpu, slices: tuple[str, ...]) -> schema.ListedGpu:
    """All facts of one GPU."""
    capability = gpu.compute_capability
    return by_field(
        schema.ListedGpu,
        gpu,
        memory=_known(gpu.memory),
        memory_smi=_fact(gpu.memory_smi),
        memory_marketed=_fact(gpu.memory_marketed),
        host_share=_fact(gpu.host_share),
        bandwidth=_known(gpu.bandwidth),
        bandwidth_measured=_fact(gpu.bandwidth_measured),
        flops={name: _known(fact) for name, fact in gpu.flops},
        link=_fact(gpu.link),
        link_domain=_fact(gpu.link_domain),
        bridge=_fact(gpu.bridge),
        pcie=_fact(gpu.pcie),
        compute_capability=None if capability is None else f"{capability[0]}.{capability[1]}",
        slices=slices,
    )


def listed_engine(about: About) -> schema.ListedEngine:
    """One engine, the releases that its rules hold for, and the rules."""
    rules = tuple(schema.ListedRule(rule.since, rule.says, rule.source, rule.certain) for rule in about.rules)
    return schema.ListedEngine(about.name, about.newest, about.oldest, rules)


def _known(fact: Fact) -> schema.KnownFact:
    return schema.KnownFact(fact.value, fact.kind, fact.sources)


def _fact(fact: Fact | None) -> schema.KnownFact | None:
    return None if fact is None else _known(fact)
