"""Pages of several sizes in one block, beside kinds of layers that no published model has: a draft's, or an indexer's as
wide as the model's own.

Groups and bytes are those of vLLM 0.33's _get_packed_kv_cache_groups and _get_kv_cache_bytes_per_block for the same specs.
"""

from __future__ import annotations

import pytest

from kvplan.engines.vllm.blocks.groups import Cached, layout
from kvplan.engines.vllm.blocks.specs import Kind, Spec
from kvplan.engines.vllm.tables.changes import rules
from kvplan.engines.vllm.tables.versions import Version
from kvplan.errors import UsageError

KIB = 1024


def layers(count: int, kind: Kind, kib: int, block: int, span: int | None = None) -> list[Cached]:
    """Layers with pages of so many KiB."""
    return [Cached(Spec(kind, block, kib * KIB, kib * KIB, (kind, kib), span, held=kind == "state"))] * count


@pytest.mark.parametrize(
    ("cached", "groups", "block"),
    [
        (  # nothing repeats: latents of 3 + 1 pages set the block, and windows are cut into what it holds
            [*layers(3, "latent", 40, 256), *layers(1, "latent", 8, 256), *layers(10, "sliding_latent", 16, 64, 128),
             *layers(21, "sliding_latent", 12, 4, 8)],
            [4, 5, 5, 7, 7, 7], 128,
        ),
        (  # two of each page size repeat; a block of 2 x (32 + 8) has room for four states
            [*layers(2, "latent", 16, 256), *layers(2, "latent", 8, 256), *layers(2, "sliding_latent", 32, 4, 8),
             *layers(2, "sliding_latent", 8, 4, 8), *layers(9, "state", 20, 8192)],
            [4, 4, 2, 2, 2, 2, 1], 80,
        ),
    ],
)  # fmt: skip
def test_windows_and_states_are_cut_into_what_a_block_holds(cached: list[Cached], groups: list[int], block: int):
    found = layout(cached, rules(), hybrid_manager=True, packed=True)
    assert [len(group.layers) for group in found.groups] == groups
    assert found.bytes_per_block(0) == block * KIB


def test_windows_of_several_sizes_that_would_have_to_be_cut_are_refused():
    """vLLM deals out as many rows as there are of each size, and loses the rest or finds an empty group: StopIteration."""
    mixed = [
        *layers(1, "latent", 16, 256),
        *layers(5, "sliding_latent", 16, 64, 128),
        *layers(4, "sliding_latent", 8, 64, 128),
    ]
    with pytest.raises(UsageError, match="can't deal"):
        layout(mixed, rules(), hybrid_manager=True, packed=True)


@pytest.mark.parametrize("release", [(0, 20, 0), (0, 23, 0), (0, 33, 0)])
def test_where_nothing_is_cached_a_block_is_nothing(release: Version):
    found = layout([], rules(release), hybrid_manager=True, packed=False)
    assert found.groups == ()
    assert found.bytes_per_block(0) == found.checked_bytes(0) == 0
