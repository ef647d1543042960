"""The GPUs of a compose service: how many it reserves, of which vendor, and which of them its server uses.

Source: https://docs.docker.com/compose/how-tos/gpu-support; moby daemon/nvidia_linux.go setNvidiaGPUs and countToDevices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kvplan.manifests.devices.accelerators import AMD, AMD_DEVICE, Device, of_ids
from kvplan.manifests.formats.compose_variables import interpolated
from kvplan.manifests.places import Given, Place, Placed
from kvplan.manifests.processes.environment import CUDA, NVIDIAS
from kvplan.manifests.yaml_nodes import Node


def devices(service: Node) -> Iterator[Device]:
    """Device files of AMD's GPUs, and slices among the GPUs that are reserved."""
    if any((item.text or "").startswith(AMD_DEVICE) for item in items(service, "devices")):
        yield Device(AMD_DEVICE, AMD)
    for device in reserved(service):
        ids = device.get("device_ids")
        for item in ids.items if ids is not None else ():
            yield from of_ids("device_ids", item.text or "")


def reserved(service: Node) -> list[Node]:
    """GPUs that a service reserves, by either way of saying so."""
    listed = service.get("deploy", "resources", "reservations", "devices")
    return [*(listed.items if listed is not None else ()), *items(service, "gpus")]


def counted(service: Node, file: str) -> Placed | None:
    """How many GPUs the reservation asks for; None for `all`."""
    for device in reserved(service):
        ids, count = device.get("device_ids"), device.get("count")
        if ids is not None and ids.items:
            return Given(str(len(ids.items)), Place(file, ids.key_line))
        if count is not None and (count.text or "").isdigit():
            return Given(str(count.text), Place(file, count.key_line))
    return None


def items(node: Node, key: str) -> Sequence[Node]:
    """What a key lists."""
    found = node.get(key)
    return found.items if found is not None else ()


MOST_GPUS = 64
"""As many as no machine has."""


def seen(service: Node, variables: Mapping[str, str], known: Mapping[str, str]) -> tuple[str, ...]:
    """The GPUs that its container certainly sees, in their order; none where that isn't known.

    variables: of its environment. known: for `${NAME}` in the file.
    """
    found = _handed(service, variables, known)
    picked = variables.get(CUDA, "all").strip()
    if picked in {"", "all"}:
        return found if picked else ()
    numbers = [each.strip() for each in picked.split(",")]
    known_all = all(each.isdigit() and int(each) < len(found) for each in numbers)
    return tuple(found[int(each)] for each in numbers) if known_all else ()


def _handed(service: Node, variables: Mapping[str, str], known: Mapping[str, str]) -> tuple[str, ...]:
    every = tuple(map(str, range(MOST_GPUS)))
    for device in reserved(service):
        ids, count = device.get("device_ids"), device.get("count")
        if ids is not None and ids.items:
            told = [interpolated(item.text or "", known) for item in ids.items]
            return tuple(text for text, _ in told) if all(missing is None for _, missing in told) else ()
        number = count.text if count is not None and count.text else "all"
        return every if number == "all" else every[: int(number)] if number.isdigit() else ()
    if service.said("gpus") == "all":
        return every
    if service.said("runtime") != "nvidia":
        return ()
    listed = variables.get(NVIDIAS, "").strip()
    return every if listed == "all" else tuple(each.strip() for each in listed.split(",") if each and "$" not in each)
