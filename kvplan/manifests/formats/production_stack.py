"""vLLM's production stack: what its chart makes of a model's values, and its operator of a VLLMRuntime.

Settings that the chart's template doesn't name are dropped.

Source: vllm-project/production-stack helm/templates/deployment-vllm-multi.yaml, operator/internal/controller/
vllmruntime_controller.go deploymentForVLLMRuntime.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from kvplan.manifests.places import Place, Remark
from kvplan.manifests.shell.parser import Word
from kvplan.manifests.yaml_nodes import Node, plain

VALUED = {
    "maxModelLen": "max-model-len", "dtype": "dtype", "tensorParallelSize": "tensor-parallel-size", "maxNumSeqs": "max-num-seqs",
    "gpuMemoryUtilization": "gpu-memory-utilization", "maxLoras": "max-loras", "runner": "runner", "convert": "convert",
}  # fmt: skip
"""Keys of `vllmConfig` that the template passes on, and as which flags."""

SWITCHED = {"enableChunkedPrefill": "enable-chunked-prefill", "enablePrefixCaching": "enable-prefix-caching"}
OTHERS = frozenset({"extraArgs", "v0", "v1", "prometheusMultiprocDir"})
"""Keys that it reads for something else, or did: `v1` asked for the engine that is the default now."""

CONNECTOR = '{"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}'
OLD_CONNECTOR = '{"kv_connector": "LMCacheConnector", "kv_role": "kv_both"}'


def is_model(node: Node) -> bool:
    """Whether a mapping is an entry of the chart's `modelSpec`."""
    return node.get("modelURL") is not None and (
        node.get("repository") is not None or node.get("vllmConfig") is not None
    )


def settings(node: Node) -> list[Word]:
    """The flags that the chart's template writes, in its order; not the model."""
    words: list[Word] = []
    lora = node.get("enableLoRA")
    if lora is not None and plain(lora):
        words.append(Word("--enable-lora", lora.line))
    words += _config(node.get("vllmConfig"))
    revision, cache = node.get("modelRevision"), node.get("lmcacheConfig")
    if revision is not None and revision.text:
        words += [Word("--revision", revision.line), Word(revision.text, revision.line)]
    if cache is not None and _on(cache.get("enabled")):
        text = OLD_CONNECTOR if _old(node) and cache.get("enablePD") is None else CONNECTOR
        words += [Word("--kv-transfer-config", cache.line), Word(text, cache.line)]
    return words


def _config(config: Node | None) -> Iterator[Word]:
    """Flags of `vllmConfig`; an empty one is none, and one without prefix caching turns it off."""
    if config is None or not config.keys:
        return
    yield from _switched(config, always=frozenset({"enablePrefixCaching"}))
    yield from _valued(config)


def _switched(config: Node, always: AbstractSet[str]) -> Iterator[Word]:
    """Switches that are on, or off; those of `always` are off where nobody says."""
    for key, flag in SWITCHED.items():
        value = config.get(key)
        if value is not None or key in always:
            yield Word(f"--{'' if _on(value) else 'no-'}{flag}", value.line if value is not None else config.line)


def _valued(config: Node) -> Iterator[Word]:
    """Flags with values, and those that stand there as they are."""
    for key, flag in VALUED.items():
        value = config.get(key)
        if value is not None and value.text is not None:
            yield Word(f"--{flag}", value.line)
            yield Word(value.text, value.line)
    extra = config.get("extraArgs")
    for item in extra.items if extra is not None else ():
        if isinstance(item.value, str):
            yield Word(item.value, item.line)


def operated(spec: Node) -> tuple[list[Word], dict[str, str]]:
    """The flags that the operator writes for a VLLMRuntime, not the model, and its container's environment."""
    words: list[Word] = []
    model, config, cache = spec.get("model"), spec.get("vllmConfig"), spec.get("lmCacheConfig")
    if model is not None:
        words += [Word("--enable-lora", model.line)] if _on(model.get("enableLoRA")) else []
        words += _valued(model)
    if config is not None:
        words += [*_switched(config, always=SWITCHED.keys()), *_valued(config)]
    new = config is not None and _on(config.get("v1"))
    if cache is not None and _on(cache.get("enabled")):
        words += [Word("--kv-transfer-config", cache.line), Word(CONNECTOR if new else OLD_CONNECTOR, cache.line)]
    return words, {"VLLM_USE_V1": "1" if new else "0", **(_env(config) if config is not None else {})}


def _env(holder: Node) -> dict[str, str]:
    """Variables of a list of names and values."""
    env = holder.get("env")
    entries = env.items if env is not None else ()
    return {
        name: value for entry in entries if (name := entry.said("name")) and (value := entry.said("value")) is not None
    }


def variables(node: Node, around: Sequence[Node]) -> dict[str, str]:
    """The environment that the chart gives its container, as far as it stands in the values."""
    found = {"VLLM_USE_V1": "0"} if _old(node) else {}
    for holder in (*around, node):
        found |= _env(holder)
    devices = node.said("lmcacheConfig", "cudaVisibleDevices")
    return found if devices is None else {**found, "CUDA_VISIBLE_DEVICES": devices}


def dropped(node: Node, file: str) -> Iterator[Remark]:
    """Settings that never reach vLLM."""
    config = node.get("vllmConfig")
    for key, value in config.keys.items() if config is not None else ():
        if key not in VALUED and key not in SWITCHED and key not in OTHERS:
            text = (
                f"the production stack's chart passes over vllmConfig.{key}: give vLLM its flag in vllmConfig.extraArgs"
            )
            yield Remark("bad-argument", text, Place(file, value.key_line))


def spread(node: Node) -> bool:
    """Whether Ray puts one server on several nodes."""
    return _on(node.get("raySpec", "enabled"))


def _old(node: Node) -> bool:
    return node.said("vllmConfig", "v0") == "1"


def _on(value: Node | None) -> bool:
    """Whether a template takes a value for true."""
    return value is not None and bool(plain(value))
