"""The page that defines descriptions: its examples load to the models they name, and it lists every field."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvplan.arch.model import Model, Origin
from kvplan.sources.description import fields, model_from_description
from kvplan.sources.models import load_model
from kvplan.sources.strict import parse_yaml_mapping

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "model-files.md").read_text()
EXAMPLES = [block for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if block.startswith("kvplan: 1")]


def example(block: str) -> Model:
    config, lines = parse_yaml_mapping(block, "page.yaml")
    return model_from_description(config, Origin("page", "page.yaml"), lines)


@pytest.mark.parametrize("block", EXAMPLES[1:])
def test_examples_cost_what_the_bundled_models_cost(block: str) -> None:
    described = example(block)
    bundled = load_model(described.origin.id)
    for tokens in (0, 1, 1000, 100_000):
        assert described.curve(described.kv_auto).bytes_at(tokens) == bundled.curve(bundled.kv_auto).bytes_at(tokens)


def test_first_example_is_five_lines() -> None:
    assert len(EXAMPLES[0].splitlines()) == 5
    assert len(EXAMPLES) == 4
    assert example(EXAMPLES[0]).layers


def test_every_field_and_kind_is_on_the_page() -> None:
    known = {
        *fields.KINDS, *fields.CACHE_FIELDS, *fields.TOP, *fields.INDEXER, *fields.TENSOR,
        "count", "caches", "shares_with", "total", "active", "experts", "experts_per_token",
    }  # fmt: skip
    words = set(re.findall(r"\w+", PAGE))
    assert sorted(known - words) == []
