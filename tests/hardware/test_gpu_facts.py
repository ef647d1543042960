"""What configs/gpus says about well-known GPUs, worked out by hand, and what must hold for every one of them."""

from __future__ import annotations

import pytest

from kvplan.hardware.gpu import Fact, overrides
from kvplan.sources.gpus import all_gpus, all_slices, load_gpu

GIB, MIB = 2**30, 2**20

KNOWN = [
    # id, MiB that CUDA or HIP shows, GB/s of the datasheet, dense bf16 TFLOPS
    ("h100-sxm", 81089, 3350, 989),
    ("h100-pcie", 81008, 2000, 756),
    ("h100-nvl", 95324, 3900, 835),
    ("h200-sxm", 143156, 4800, 989),
    ("b200-sxm", 182642, 8000, 2250),
    ("b300-sxm", 274113, 8000, 2250),
    ("gb200", 188733, 8000, 2500),
    ("a100-sxm-80", 81151, 2039, 312),
    ("a100-sxm-40", 40438, 1555, 312),
    ("l40s", 45467, 864, 362),
    ("l4", 22559, 300, 121),
    ("a10g", 22587, 600, 70),
    ("rtx-3090", 24123, 936, 71.2),
    ("rtx-4090", 24210, 1008, 165.2),
    ("rtx-5090", 32119, 1792, 209.5),
    ("mi300x", 196588, 5300, 1307.4),
    ("mi355x", 294896, 8000, 2500),
    ("tpu-v5e", 16128, 819, 197),
    ("dgx-spark", 124610, 273, 118.8),
]


@pytest.mark.parametrize(("name", "mib", "gb_per_s", "tflops"), KNOWN)
def test_well_known_gpus(name, mib, gb_per_s, tflops):
    gpu = load_gpu(name)
    assert gpu.id == name
    assert gpu.memory.value == mib * MIB
    assert gpu.bandwidth.value == gb_per_s * 10**9
    assert dict(gpu.flops)["bf16"].value == int(tflops * 10) * 10**11


def test_h100_in_full():
    gpu = load_gpu("h100")
    assert (gpu.memory.kind, gpu.memory_os) == ("measured", "linux")
    assert gpu.memory_marketed.value == 80 * 10**9
    assert gpu.memory_smi.value == 81559 * MIB
    # NVLink 4: 18 links x 25 GB/s each way; PCIe 5 x16: 32 GT/s x 16 lanes / 8 bits, both ways
    assert (gpu.link.value, gpu.link_name, gpu.link_domain.value) == (900 * 10**9, "NVLink", 8)
    assert gpu.pcie.value == 128 * 10**9
    assert gpu.compute_capability == (9, 0)
    assert gpu.fp8_kv_native is True
    assert [fact.value // 10**9 for fact in gpu.bandwidth.alternates] == [3360, 3072, 3400]


def test_vendor_measured_and_derived_are_apart():
    gpu = load_gpu("b300")
    assert (gpu.memory_marketed.value, gpu.memory_marketed.kind) == (288 * 10**9, "vendor")
    assert (gpu.memory.value, gpu.memory.kind) == (274113 * MIB, "measured")  # 267.7 GiB, not 288
    assert (load_gpu("a30").memory.kind, load_gpu("a30").memory_smi) == ("derived", None)


def test_a_package_of_two_devices_is_two_devices():
    # MI250X: 128 GB, 3.28 TB/s and 383 TFLOPS in two GCDs that ROCm lists apart
    gpu = load_gpu("mi250x")
    assert gpu.devices_per_package == 2
    assert gpu.memory.value == 65520 * MIB
    assert gpu.bandwidth.value == 1640 * 10**9
    assert dict(gpu.flops)["bf16"].value == 1915 * 10**11
    # TPU7x: 192 GiB a chip, of which XLA offers 94.75 GiB on each of its two devices
    assert load_gpu("tpu-v7x").memory.value == 97024 * MIB


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("h200:1g.35gb", 32.5),
        ("h200:1g.18gb", 16.0),
        ("a100:3g.40gb", 39.25),
        ("a100-40gb:3g.20gb", 19.62),
        ("h100:3g.40gb", 39.5),
        ("h100:1g.10gb", 9.75),
        ("h100-nvl:7g.94gb", 93.12),
        ("rtx-pro-6000-server:2g.48gb", 46.5),
    ],
)
def test_mig_slices_have_the_memory_nvidia_smi_prints(name, gib):
    assert load_gpu(name).memory.value == int(gib * 100) * GIB // 100


@pytest.mark.parametrize(
    ("name", "eighths", "tflops"),
    [("a100:1g.10gb", 1, 312 / 7), ("a100:1g.20gb", 2, 312 / 7), ("a100:3g.40gb", 4, 312 * 3 / 7), ("a30:1g.6gb", 2, 165 / 4)],
)  # fmt: skip
def test_a_slice_reads_with_its_share_of_memory_and_computes_with_its_share_of_processors(name, eighths, tflops):
    whole, part = load_gpu(name.partition(":")[0]), load_gpu(name)
    assert part.mig_of == whole.id
    assert part.bandwidth.value == whole.bandwidth.value * eighths // 8
    assert part.bandwidth.kind == "derived"
    assert dict(part.flops)["bf16"].value == pytest.approx(tflops * 10**12)
    assert part.link is None
    assert part.memory_marketed is None


def test_apple_offers_metals_working_set_not_ram():
    # two thirds up to 32 GiB, three quarters to 96, 0.84 of 128 GiB on macOS 26
    mib = {name: load_gpu(name).memory.value // MIB for name in ("m2-max-32gb", "m3-max-64gb", "m4-max-128gb")}
    assert mib == {"m2-max-32gb": 21845, "m3-max-64gb": 49152, "m4-max-128gb": 110100}
    assert all(0.66 <= value * MIB / (int(name[7:-2]) * GIB) <= 0.85 for name, value in mib.items())


def test_a_unified_memory_machine_shares_with_its_host():
    spark = load_gpu("dgx-spark")
    assert spark.unified
    # 121.69 GiB in all, 102 GiB of them free on a running machine
    assert spark.memory.value - spark.host_share.value == pytest.approx(102 * GIB, abs=10 * MIB)


# Every GPU -----------------------------------------------------------------------------------------------------------

EVERY = [*all_gpus(), *all_slices()]


def facts(gpu):
    named = {
        "memory": gpu.memory, "bandwidth": gpu.bandwidth, "marketed": gpu.memory_marketed, "smi": gpu.memory_smi,
        "measured": gpu.bandwidth_measured, "link": gpu.link, "bridge": gpu.bridge, "pcie": gpu.pcie,
        "domain": gpu.link_domain, **dict(gpu.flops),
    }  # fmt: skip
    return {name: fact for name, fact in named.items() if fact is not None}


def test_ids_are_unique_and_known_vendors_stay():
    families = {gpu.id if gpu.vendor != "apple" else gpu.driver_names for gpu in all_gpus()}
    assert len(families) >= 95
    assert len(all_slices()) >= 80
    assert len({gpu.id for gpu in EVERY}) == len(EVERY)
    assert {gpu.vendor for gpu in EVERY} >= {"nvidia", "amd", "intel", "google", "aws", "huawei", "apple"}


@pytest.mark.parametrize("gpu", EVERY, ids=lambda gpu: gpu.id)
def test_every_number_has_a_source_worth_the_name(gpu):
    for name, fact in facts(gpu).items():
        for number in (fact, *fact.alternates):
            assert number.sources, name
            assert not any(word in " ".join(number.sources) for word in ("recollection", "unverified", "from memory"))
        assert fact.kind != "derived" or fact.note, f"{name} says how it was derived"


@pytest.mark.parametrize("gpu", EVERY, ids=lambda gpu: gpu.id)
def test_every_number_is_sane(gpu):
    memory = gpu.memory.value
    assert 4 * GIB < memory < 300 * GIB
    assert 25 * 10**9 <= gpu.bandwidth.value <= 25 * 10**12
    if gpu.memory_smi is not None:
        assert memory <= gpu.memory_smi.value + 5 * MIB, (
            "a process sees no more than the tool (2 decimals of GiB: 5 MiB)"
        )
        assert memory >= 0.96 * gpu.memory_smi.value
    if gpu.memory_marketed is not None and not gpu.unified:
        share = memory / (gpu.memory_marketed.value / 10**9 * GIB)
        assert 0.9 < share < 1.01, "N GB on the box are N GiB of memory, less what ECC and the driver take"
    if gpu.bandwidth_measured is not None:
        assert 0.5 < gpu.bandwidth_measured.value / gpu.bandwidth.value < 1
    rates = dict(gpu.flops)
    assert all(10**13 < fact.value < 2 * 10**16 for fact in rates.values())
    if {"bf16", "fp8"} <= set(rates):
        assert rates["fp8"].value >= rates["bf16"].value
    for fact in (gpu.memory, gpu.bandwidth):
        assert all(0.2 < other.value / fact.value < 5 for other in fact.alternates)


def test_no_prices():
    words = " ".join(note for gpu in EVERY for note in gpu.notes)
    assert "$" not in words
    assert "price" not in words.lower()


# Given by hand -------------------------------------------------------------------------------------------------------


def test_overrides_are_given_and_keep_what_was_known():
    gpu = overrides(load_gpu("rtx-3090"), memory=20 * GIB, bandwidth=900 * 10**9)
    assert (gpu.memory.value, gpu.memory.kind, gpu.memory.sources) == (20 * GIB, "given", ("--gpu-memory",))
    assert (gpu.bandwidth.value, gpu.bandwidth.sources) == (900 * 10**9, ("--gpu-bandwidth",))
    assert gpu.memory.alternates[0].value == 24123 * MIB
    assert gpu.memory_smi == load_gpu("rtx-3090").memory_smi


def test_overrides_of_nothing_change_nothing():
    assert overrides(load_gpu("h100")) == load_gpu("h100")


def test_a_fact_names_who_states_it():
    with pytest.raises(Exception, match="source is missing"):
        Fact(1, "vendor", ())
