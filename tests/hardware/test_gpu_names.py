"""What people type, and which device they get: or a refusal that names the choices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.errors import ConfigError, KvplanError, UnknownName, UsageError
from kvplan.hardware.names import build_catalogue, key
from kvplan.hardware.record import Record
from kvplan.sources.gpus import all_gpus, all_slices, load_gpu, meaning, parse_gpu

SPELLINGS = {
    "h100-sxm": ["h100", "H100", "h100-80gb", "NVIDIA H100 80GB HBM3", "h100_sxm5", "h100 sxm", "nvidia-h100-80gb"],
    "a100-sxm-80": ["a100", "A100-SXM4-80GB", "a100_80gb", "nvidia-a100-80gb"],
    "a100-sxm-40": ["a100-40gb", "NVIDIA A100-SXM4-40GB", "nvidia-tesla-a100"],
    "a100-pcie-80": ["NVIDIA A100 80GB PCIe", "a100-80gb-pcie"],
    "rtx-4090": ["4090", "rtx4090", "RTX 4090", "NVIDIA GeForce RTX 4090", "geforce-rtx-4090", "rtx-4090-24gb"],
    "mi300x": ["mi300x", "MI300X", "AMD Instinct MI300X", "mi300"],
    "l40s": ["l40s", "NVIDIA L40S", "g6e"],
    "t4": ["Tesla T4", "nvidia-tesla-t4"],
    "dgx-spark": ["gb10", "NVIDIA GB10"],
    "rtx-6000-ada": ["rtx 6000 ada", "NVIDIA RTX 6000 Ada Generation"],
    "strix-halo": ["Ryzen AI Max+ 395", "strixhalo"],
    "m3-max-64gb": ["m3-max-64gb", "Apple M3 Max 64GB", "m3-max:64"],
    "h100-sxm:3g.40gb": ["h100:3g.40gb", "h100-mig-3g.40gb", "NVIDIA H100 80GB HBM3 MIG 3g.40gb", "h100_3g.40gb"],
    "h200-sxm:1g.35gb": ["NVIDIA H200 MIG 1g.35gb", "h200:1g.35gb+me"],
}


@pytest.mark.parametrize(("wanted", "text"), [(wanted, text) for wanted, texts in SPELLINGS.items() for text in texts])
def test_a_spelling_names_one_gpu(wanted, text):
    assert load_gpu(text).id == wanted


def test_a_short_name_says_what_it_was_taken_for():
    assert meaning("H100x8") == "h100 means the SXM board, which clouds rent most; h100-pcie reads 2.0 TB/s, h100-nvl has 94 GB"  # fmt: skip
    assert meaning("a100:3g.40gb").startswith("a100 means the 80 GB SXM board")
    assert [meaning(text) for text in ("h100-sxm", "4090", "v100", "my.yaml", "auto", "abacus")] == [None] * 6


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("h100x8", ("h100-sxm", 8)),
        ("H100 x 8", ("h100-sxm", 8)),
        ("8xH100", ("h100-sxm", 8)),
        ("h100:8", ("h100-sxm", 8)),
        ("h100*8", ("h100-sxm", 8)),
        ("h100", ("h100-sxm", None)),
        ("mi300x", ("mi300x", None)),
        ("mi300xx8", ("mi300x", 8)),
        ("mi300x8", ("mi300x", 8)),
        ("mi325x8", ("mi325x", 8)),
        ("3090x4", ("rtx-3090", 4)),
        ("2x4090", ("rtx-4090", 2)),
        ("gb200x72", ("gb200", 72)),
        ("h100:1g.10gbx7", ("h100-sxm:1g.10gb", 7)),
        ("rx-7900-xtx", ("rx-7900-xtx", None)),
    ],
)
def test_a_number_of_gpus_is_read_before_and_after_the_name(text, wanted):
    gpu, count = parse_gpu(text)
    assert (gpu.id, count) == wanted


@pytest.mark.parametrize("gpu", [*all_gpus(), *all_slices()], ids=lambda gpu: gpu.id)
def test_every_id_alias_and_count_comes_back(gpu):
    assert load_gpu(gpu.id) is gpu
    assert parse_gpu(f"{gpu.id}x8") == (gpu, 8)
    aliases = gpu.aliases if "gb" not in gpu.id.partition(":")[0] or gpu.vendor != "apple" else ()
    assert all(load_gpu(alias) is gpu for alias in aliases)


def test_completion_lists_ids():
    ids = [gpu.id for gpu in all_gpus()]
    assert len(set(ids)) == len(ids)
    assert "h100-sxm" in ids
    assert "h100-sxm:3g.40gb" in [gpu.id for gpu in all_slices()]


# Refused by name -----------------------------------------------------------------------------------------------------


def refusal(text):
    with pytest.raises(UnknownName) as caught:
        load_gpu(text)
    assert caught.value.exit_code == 2
    return caught.value.problem


@pytest.mark.parametrize(
    ("text", "choices"),
    [
        ("v100", ["v100-sxm-16", "v100-sxm-32", "v100-pcie-32"]),
        ("rtx-3080", ["rtx-3080-10"]),
        ("rtx 6000", ["rtx-6000-ada", "rtx-a6000", "rtx-pro-6000-server"]),
        ("rtx-pro-6000", ["rtx-pro-6000-server", "rtx-pro-6000-workstation"]),
        ("NVIDIA GeForce RTX 4060 Ti", ["rtx-4060-ti-16"]),
        ("orin", ["jetson-agx-orin-64", "jetson-orin-nano-8"]),
        ("m3-max", ["m3-max-36gb", "m3-max-128gb"]),
        ("tpu", ["tpu-v5e", "tpu-v6e"]),
    ],
)
def test_a_name_of_several_devices_names_the_choices(text, choices):
    problem = refusal(text)
    assert "more than one device" in problem.what
    assert problem.cause
    assert all(choice in problem.hint for choice in choices)


@pytest.mark.parametrize(("text", "near"), [("h1000", "h100-sxm"), ("rtx-4091", "rtx-4090"), ("mi300y", "mi300x"), ("h10x8", "h100-sxm")])  # fmt: skip
def test_an_unknown_name_names_the_nearest(text, near):
    problem = refusal(text)
    assert f"did you mean {near}" in problem.hint
    assert "`kvplan gpus`" in problem.hint


def test_an_unknown_name_like_nothing():
    problem = refusal("abacus")
    assert problem.what == "no GPU is called 'abacus'"
    assert problem.hint == "`kvplan gpus` lists them all"


@pytest.mark.parametrize("text", ["rubin", "B100", "h20-3e", "mi455x", "cpu"])
def test_withheld_devices_say_why(text):
    problem = refusal(text)
    assert problem.what == f"kvplan doesn't plan for {text!r}"
    assert problem.cause
    assert "YAML" in problem.hint


def test_a_profile_the_gpu_lacks_names_its_own_and_who_has_it():
    problem = refusal("a100:3g.20gb")
    assert problem.what == "a100-sxm-80 has no MIG profile 3g.20gb"
    assert "3g.40gb" in problem.cause
    assert "a100-sxm-40:3g.20gb" in problem.hint
    assert "no MIG profiles" in refusal("t4:1g.5gb").cause


def test_different_devices_in_one_plan_are_refused():
    # two machines of 128 and 96 GB can't be halves: shards are equal
    with pytest.raises(UsageError, match="mixes devices") as caught:
        parse_gpu("m4-max-128gb+m3-ultra-96gb")
    assert "smallest" in caught.value.problem.hint


@pytest.mark.parametrize("text", ["h100x0", "h100x100001", "0xh100"])
def test_counts_that_no_plan_has(text):
    with pytest.raises(UsageError, match="devices"):
        parse_gpu(text)


def test_a_count_where_one_gpu_is_needed():
    with pytest.raises(UsageError, match="number of GPUs") as caught:
        load_gpu("h100x8")
    assert caught.value.problem.hint == "write h100-sxm"


@given(st.text(max_size=40))
def test_no_text_gives_a_traceback(text):
    if text.lower().endswith((".yaml", ".yml")) or "auto" in text.lower():
        return
    try:
        found = parse_gpu(text)
    except KvplanError as error:
        found = error.problem
    assert getattr(found, "hint", True), "an answer, or what to type next"


# Building the catalogue ----------------------------------------------------------------------------------------------


def test_one_name_for_two_devices_is_an_error_unless_it_is_shared():
    one, two = load_gpu("h100-sxm"), load_gpu("h200-sxm")
    clash = [Record("h100-sxm", (one,), {}, {"best": "x"}, {}), Record("h200-sxm", (two,), {}, {"best": "y"}, {})]
    with pytest.raises(ConfigError, match="'best' stands for h100-sxm and for h200-sxm"):
        build_catalogue(clash, {})
    shared = [
        Record("h100-sxm", (one,), {}, {}, {"best": "tastes differ"}),
        Record("h200-sxm", (two,), {}, {}, {"best": None}),
    ]
    catalogue = build_catalogue(shared, {})
    assert catalogue.shared["best"].ids == ("h100-sxm", "h200-sxm")
    assert catalogue.shared["best"].reason == "tastes differ"


def test_a_withheld_name_is_nobody_elses():
    with pytest.raises(ConfigError, match="name of another device"):
        build_catalogue([Record("h100-sxm", (load_gpu("h100"),), {}, {}, {})], {"h100-sxm": ((), "no")})


def test_separators_case_and_brand_make_no_difference():
    assert key("NVIDIA H100-80GB") == key("h100_80gb") == key("H100 80gb") == "h10080gb"
    assert key("Intel(R) Arc(TM) B580 Graphics") == "arcb580"
