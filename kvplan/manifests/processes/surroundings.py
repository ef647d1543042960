"""The surroundings of a serve command (image, environment, GPUs) compared with what the command asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from kvplan.manifests.devices import accelerators
from kvplan.manifests.devices.accelerators import Device
from kvplan.manifests.flags.command import Arguments
from kvplan.manifests.installed.images import DEVICES as KINDS
from kvplan.manifests.installed.images import image_device, serves_itself
from kvplan.manifests.keys import DEVICES
from kvplan.manifests.places import UNSAID_VERSION, Given, Hidden, Key, Placed
from kvplan.manifests.processes import environment
from kvplan.manifests.processes.container import Container


def check(container: Container, found: Arguments, layer: Mapping[Key, Placed]) -> None:
    """Remark what doesn't go together, and what a plan doesn't count."""
    _check_gpus(container, found, layer)
    for said in container.unclear if container.gpu is None else ():
        found.remark("gpu-name", f"{said.value}: planned on the one that --gpu, or a budget, names", said.place)
    _check_environment(container, found)


def device(container: Container, found: Arguments) -> str | None:
    """What the command runs on, where that is no GPU of NVIDIA's or AMD's."""
    said = container.device or image_device(container.image or "") or _device(found)
    forced = environment.forced(container.variables, container.version)
    if said is not None or (_has_gpus(container) and not forced):
        return said
    return environment.device(container.variables) or container.built


def _has_gpus(container: Container) -> bool:
    """Whether a container certainly runs on GPUs of NVIDIA's or AMD's, whatever its environment says for other devices."""
    named = container.gpu is not None or container.gpus is not None or environment.shows(container.variables)
    return named or any(device.vendor for device in container.devices) or serves_itself(container.image or "")


def layer(container: Container, found: Arguments) -> dict[Key, Placed]:
    """What the container says beside the command: the engine's version and the accelerator."""
    said: dict[Key, Placed] = {}
    if (version := container.version) is not None:
        said[("engine",)] = Given(f"vllm@{version}", container.place)
    if container.gpu is not None:
        said[("gpu",)] = container.gpu
    if devices := tuple(_devices(container, found)):
        said[(DEVICES,)] = Given(devices, container.place)
    for key, value in environment.flags(container.variables, container.version):
        said[("flags", key)] = Given(value, container.place)
    return said


def _devices(container: Container, found: Arguments) -> Iterator[Device]:
    """Everything that is said of the accelerator: by whoever describes the container, its image, its environment."""
    yield from container.devices
    if container.image and (device := accelerators.of_image(container.image)) is not None:
        yield device
    if (said := environment.rocm(container.variables)) is not None:
        yield Device(said, accelerators.AMD)
    for name in environment.VISIBLE:
        yield from accelerators.of_ids(name, container.variables.get(name, ""))
    picked = found.flags.get("device-ids")
    if picked is not None and picked.text:
        yield from accelerators.of_ids("--device-ids", picked.text)


def _device(found: Arguments) -> str | None:
    """What --device of earlier releases names."""
    value = found.flags.get("device")
    return KINDS.get(value.text) if value is not None and value.text is not None else None


def _check_environment(container: Container, found: Arguments) -> None:
    """What stands around the command and isn't counted."""
    for text in environment.uncounted(container.variables, container.version):
        found.remark("not-counted", text, container.place)
    if (unsaid := container.unsaid) is not None:
        said, place = unsaid
        found.remark(
            UNSAID_VERSION,
            f"{said}: planned as {container.version or 'the newest'}, unless --engine says otherwise",
            place,
        )


_RANKS = {"tp": "tensor", "pp": "pipeline", "dp": "data"}
"""Sizes of which each rank has GPUs of its own, and what they are called."""

_SPREAD = frozenset({
    "data-parallel-size-local", "data-parallel-rank", "data-parallel-start-rank", "data-parallel-address", "data-parallel-backend",
    "data-parallel-external-lb", "data-parallel-hybrid-lb", "data-parallel-multi-port-external-lb", "headless",
})  # fmt: skip
"""Flags of a server whose replicas may run elsewhere."""


def _check_gpus(container: Container, found: Arguments, layer: Mapping[Key, Placed]) -> None:
    """Whether the container has the GPUs that one server needs; pipelines and replicas may reach over several nodes."""
    given, whose = _given_gpus(container, found)
    nodes = _nodes(container, found)
    said = {name: layer[("parallel", name)] for name in _RANKS if ("parallel", name) in layer}
    if given is None or nodes is None or any(isinstance(placed, Hidden) for placed in said.values()):
        return
    if nodes > 1 and "pp" in said:
        return
    if nodes > 1 or not _SPREAD.isdisjoint(found.flags):
        said.pop("dp", None)
    several = {name: placed for name, placed in said.items() if int(placed.value) > 1} or said
    size = prod(int(placed.value) for placed in several.values())
    if size > given * nodes:
        places = [placed.place for placed in several.values()]
        named = " by ".join(f"{_RANKS[name]} parallel size {placed.value}" for name, placed in several.items())
        text = f"{named or 'tensor parallel size 1'} needs {size} GPU{'s' if size > 1 else ''}, and {whose} {given or 'none'}"
        text += f" on each of {nodes} nodes" if nodes > 1 else ""
        found.remark("gpu-count", text, places[0] if places else container.place, "error")


def _given_gpus(container: Container, found: Arguments) -> tuple[int | None, str]:
    """How many GPUs a container has, and who says so; None where nobody does."""
    asked = container.gpus
    count = int(str(asked.value)) or None if asked is not None and str(asked.value).isdigit() else None
    whose = "the container asks for" if container.image is not None else "its job asks for"
    seen = environment.visible(container.variables)
    if seen is not None and (count is None or seen[1] < count):
        count, whose = seen[1], f"{seen[0]} shows it"
    picked = found.flags.get("device-ids")
    ids = [each for each in (picked.text or "").split(",") if each.strip()] if picked is not None else []
    return (len(ids), "--device-ids picks") if ids and (count is None or len(ids) < count) else (count, whose)


def _nodes(container: Container, found: Arguments) -> int | None:
    """Over how many nodes one server reaches; None where that isn't known."""
    value = found.flags.get("nnodes")
    if value is not None:
        return int(value.text) if value.text is not None and value.text.isdigit() else None
    executor = found.flags.get("distributed-executor-backend")
    return None if executor is not None and executor.text == "ray" else container.nodes
