"""What an image's name says: whether it holds vLLM, in which version, and for which kind of device."""

from __future__ import annotations

import re

_VERSION = r"(0\.\d+(?:\.\d+){0,2}(?:\.?(?:post|rc)\d+)?)"
_TAGGED = re.compile(rf"(?:^|[^0-9.])v?{_VERSION}(?:$|[^0-9.])", re.ASCII)
_LIKELY = re.compile(rf"v?{_VERSION}(?:$|[-_+])", re.ASCII)
_SAID = re.compile(rf"vllm[-_]?v?{_VERSION}(?:$|[^0-9.])", re.ASCII)
_OFFICIAL = re.compile(
    r"(?:^|/)vllm/vllm-openai(?:-[a-z0-9]+)*$|^public\.ecr\.aws/deep-learning-containers/vllm$"
    r"|^\d+\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com/vllm$"
)
"""Images whose tags are vLLM's versions: vLLM's own, mirrors of them, and the AWS Deep Learning Containers.

Others that are called vllm count in releases of their own: lmcache/vllm-openai, llm-d, ai-dynamo/vllm-runtime.
"""

_LOCAL = re.compile(r"[a-z0-9][a-z0-9._-]*", re.ASCII)
"""Names of images that were built where they are run, or that Docker itself publishes, of which none holds vLLM.

`vllm` alone stands for one that isn't named.
"""

DEVICES = {
    "tpu": "a TPU", "hpu": "Gaudi", "gaudi": "Gaudi", "neuron": "Neuron", "neuronx": "Neuron", "xpu": "an Intel XPU",
    "cpu": "a CPU", "ascend": "Ascend", "npu": "an NPU", "rbln": "an NPU", "openvino": "OpenVINO",
    "spyre": "Spyre",
}  # fmt: skip
"""Words in names of images, and values of vLLM's old --device, that say it doesn't run on a GPU of NVIDIA or AMD."""


def split(image: str) -> tuple[str, str]:
    """Name and tag of an image, without its digest; no tag where there is none."""
    name, colon, tag = image.partition("@")[0].rpartition(":")
    return (name, tag) if colon and "/" not in tag else (image.partition("@")[0], "")


def is_vllm_image(image: str) -> bool:
    """Whether an image's name says that it holds vLLM: `vllm/vllm-openai:v0.19.0`, `ghcr.io/org/vllm:latest`."""
    return "vllm" in split(image)[0].rpartition("/")[2]


def serves_itself(image: str) -> bool:
    """Whether an image's own entry point certainly is vLLM's server, which takes what follows for its arguments.

    Source: vLLM docker/Dockerfile, `python3 -m vllm.entrypoints.openai.api_server` and since then `vllm serve`.
    """
    return f"/{split(image)[0]}".endswith("/vllm/vllm-openai")


def image_version(image: str) -> str | None:
    """The version of vLLM by an image's tag; None where the tag says nothing (`latest`, a digest, a vendor's own number)."""
    name, tag = split(image)
    match = _SAID.search(tag) or (_TAGGED.search(tag) if _OFFICIAL.search(name) else None)
    return match[1] if match is not None else None


def likely_version(image: str) -> str | None:
    """The version that the tag of a mirror of vLLM's own image says, whoever built it: `ghcr.io/org/vllm-openai:v0.10.0-cu128`.

    Only of releases since 0.8: LMCache's images are called so too, and count in releases of its own, 0.3 and 0.4 by now.
    """
    name, tag = split(image)
    match = _LIKELY.match(tag) if re.search(r"(?:^|/)vllm-openai(?:-[a-z0-9]+)*$", name) else None
    return match[1] if match is not None and int(match[1].split(".")[1]) >= 8 else None


def said_release(name: str) -> str | None:
    """The release of vLLM that something is called by: `/opt/vllm-0.9.2`."""
    match = _SAID.search(name)
    return match[1] if match is not None else None


STAND_IN = "vllm"
"""What stands for an image where a chart or an operator chooses it."""


def unsaid(image: str) -> str | None:
    """What an image says in place of vLLM's version: a tag of one's own, another product's number, a digest, a name without a registry.

    None where it says the version, or nothing but that it is the newest.
    """
    name, tag = split(image)
    if "@" not in image and tag in {"", "latest"} and image != STAND_IN and _LOCAL.fullmatch(name):
        return "its name"
    if name.startswith("$"):
        return "a variable"
    if image_version(image) is not None or tag == "latest":
        return None
    return tag or ("its digest" if "@" in image else None)


def elsewhere(image: str) -> bool:
    """Whether nobody knows which vLLM an image holds; a nightly build's flags are the newest's at least."""
    said = unsaid(image)
    return said is not None and not said.startswith("nightly")


def image_device(image: str) -> str | None:
    """The kind of device an image of vLLM is built for, where that is neither NVIDIA's GPU nor AMD's."""
    if "vllm" not in image:
        return None
    words = re.split(r"[^a-z0-9]+", image.partition("@")[0].lower())
    return next((DEVICES[word] for word in words if word in DEVICES), None)
