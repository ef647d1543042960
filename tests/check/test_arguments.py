"""vLLM's command lines, against what vLLM's own parser made of them, and what becomes of a plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from check.harmless import HARMLESS

from kvplan.check.budgets.flags import release_of
from kvplan.engines.vllm.tables.flags import FLAGS
from kvplan.engines.vllm.tables.versions import NEWEST, text
from kvplan.manifests import parse
from kvplan.manifests.flags import names, releases, speculative, transfer
from kvplan.manifests.flags.arguments import read_arguments
from kvplan.manifests.flags.command import CantRead, Configured
from kvplan.manifests.flags.counted import MEANINGS, PLANNED
from kvplan.manifests.flags.layer import layer_of
from kvplan.manifests.flags.uncounted import UNCOUNTED
from kvplan.manifests.keys import DRAFTING
from kvplan.manifests.places import Hidden, Place
from kvplan.manifests.shell.parser import Word
from kvplan.manifests.tree import WorkingTree

FACTS = json.loads((Path(__file__).parents[1] / "data" / "vllm-arguments.json").read_text())

NAMES = {
    "max_model_len": "context", "tensor_parallel_size": "parallel.tp", "pipeline_parallel_size": "parallel.pp",
    "data_parallel_size": "parallel.dp", "decode_context_parallel_size": "parallel.dcp", "kv_cache_dtype": "kv_dtype",
    "enable_expert_parallel": "parallel.ep", "revision": "revision", "model": "model",
}  # fmt: skip


def read(*words: str, config: str = "", positional: bool = True) -> tuple[dict[str, Any], list[str], list[str]]:
    """The layer by dotted keys, and the rules of its remarks, warnings and errors apart."""
    typed = [Word(word, number) for number, word in enumerate(words, 1)]
    found = read_arguments(typed, "f", lambda path: Configured(path, config) if config else None, positional=positional)
    layer = {".".join(key): placed.value for key, placed in layer_of(found).items()}
    remarks = [*found.remarks, *releases.remarks(found.given, releases.Asked(None))]
    warned = [remark.rule for remark in remarks if remark.level == "warn"]
    return layer, warned, [remark.rule for remark in remarks if remark.level == "error"]


def in_plain_values(layer: dict[str, Any]) -> dict[str, Any]:
    """Values of flags as vLLM has them: read from text."""
    from kvplan.check.budgets.flags import VLLM

    plain = dict(layer)
    for name in ("dtype", "quantization"):  # said of the checkpoint, which the facts leave out
        plain.pop(f"flags.{name}", None)
    for key, value in layer.items():
        name = key.removeprefix("flags.")
        if name in VLLM and key != name:
            read = VLLM[name].read(value)
            plain[key] = (not read) if VLLM[name].option in {"graphs", "hybrid_manager"} else read
    return plain


@pytest.mark.parametrize("fact", FACTS["lines"], ids=lambda fact: " ".join(fact["words"]))
def test_as_vllm_reads_them(fact: dict[str, Any]):
    words = fact["words"]
    if fact["said"] is None:  # vLLM refuses: an error, or for names of other versions a warning
        try:
            _, warned, errors = read(*words)
        except CantRead:
            return
        assert errors == ["bad-argument"] or warned == ["unknown-flag"]
        return
    layer, _, errors = read(*words, config=FACTS["config"])
    assert not errors
    said = {NAMES.get(name, f"flags.{name}"): value for name, value in fact["said"].items()}
    spec = said.pop("flags.speculative_config", None)
    if spec is not None:
        said["flags.num_speculative_tokens"] = spec["num_speculative_tokens"]
        if spec.get("method") == "mtp":
            said[DRAFTING] = "itself"
    found = in_plain_values(layer)
    if said.pop("parallel.ep", None):
        assert found.pop("parallel.ep") == -1  # over every rank
    at_default = {"parallel.tp": 1, "flags.enforce_eager": False}
    found = {key: value for key, value in found.items() if key in said or at_default.get(key) != value}
    assert found == said


def test_false_in_a_config_file_is_passed_over_and_told():
    _, warned, _ = read("--config", "x.yaml", config="model: m\nenable-prefix-caching: false\n")
    assert warned == ["bad-argument"]
    layer, warned, _ = read("--config", "x.yaml", config="model: m\nenable-prefix-caching: false\n", positional=False)
    assert layer["flags.enable_prefix_caching"] is False
    assert not warned


def test_an_argument_with_a_blank_in_it_does_not_start():
    layer, _, errors = read("m", "--max-model-len 8192")
    assert layer["context"] == 8192
    assert errors == ["bad-argument"]


REFUSED = [
    # asked of vLLM 0.33's parser: what it doesn't recognise, whatever a later release may have
    (("m", "other"), {}), (("m", ""), {}), (("m", "-tp2"), {"parallel.tp": 2}), (("m", "--enforce-eager", "true"), {}),
    (("m", " --max-num-seqs", "4"), {"flags.max_num_seqs": "4"}),
    (("m", "-dp4", "--max-num-seqs", "4"), {"parallel.dp": 4, "flags.max_num_seqs": "4"}),
]  # fmt: skip


@pytest.mark.parametrize(("words", "counted"), REFUSED)
def test_words_that_no_release_takes(words: tuple[str, ...], counted: dict[str, Any]):
    layer, warned, errors = read(*words)
    assert errors == ["bad-argument"]
    assert not warned
    assert counted.items() <= layer.items()


@pytest.mark.parametrize("words", [("m", "--max-modl-len", "1", "2"), ("m", "--enable-chunked-prefill", "true")])
def test_words_that_another_release_may_take(words: tuple[str, ...]):
    assert not read(*words)[2]


def test_short_names_and_values_in_one_word():
    layer, warned, errors = read("m", "-qawq", "-O3")
    assert (layer["flags.quantization"], warned, errors) == ("awq", [], [])
    (remark,) = releases.remarks(
        read_arguments([Word("m", 1), Word("-x", 2)], "f", lambda _: None, positional=True).given, releases.Asked(None)
    )
    assert remark.text == f"vLLM {text(NEWEST)} has no flag -x"


@pytest.mark.parametrize(
    ("flag", "version", "level"),
    [
        ("--enforce-eager=false", "0.33", "error"),  # ignored explicit argument 'false'
        ("--no-enforce-eager=true", "0.33", "error"),
        ("--enforce-eager=false", "0.6.0", "error"),  # action='store_true'
        ("--enable-chunked-prefill=false", "0.8.5", "error"),
        ("--enable-chunked-prefill=false", "0.8.4", None),  # StoreBoolean
        ("--enable-prefix-caching=true", None, "warn"),
        ("--disable-log-requests=true", "0.8.4", "error"),
        ("--max-num-seqs=4", "0.33", None),
    ],
)
def test_switches_with_values(flag: str, version: str | None, level: str | None):
    found = read_arguments(
        [Word("m", 1), Word(flag, 2)], "f", lambda _: None, positional=True, release=releases.known_release(version)
    )
    remarks = list(releases.remarks(found.given, releases.Asked(version)))
    assert [remark.level for remark in remarks] == ([level] if level else [])


@pytest.mark.parametrize("no", ["no-", "no_"])
def test_a_switch_that_is_turned_off_in_a_config_file(no: str):
    for off in (True, False):
        layer, warned, errors = read(
            "--config", "x.yaml", config=f"model: m\n{no}enable-prefix-caching: {str(off).lower()}\n"
        )
        assert layer.get("flags.enable_prefix_caching") == (False if off else None)
        assert (warned, errors) == ([] if off else ["bad-argument"], [])


def test_an_entry_without_a_value_in_a_config_file():
    """load_config_file passes str(None); asked of vLLM 0.33's parser, which takes it for a revision and for no length."""
    _, warned, errors = read("--config", "x.yaml", config="model: m\nmax-model-len:\nenforce-eager:\n")
    assert (warned, errors) == ([], ["bad-argument", "bad-argument"])
    assert read("--config", "x.yaml", config="model: m\nrevision:\nkv-cache-memory-bytes:\n") == (
        {"model": "m"},
        [],
        [],
    )


def test_a_config_file_alone_with_a_switch_that_is_turned_off():
    (command,) = parse("model: m\nno-enable-chunked-prefill: true\n", "c.yaml", WorkingTree()).commands
    assert command.layer["flags", "enable_chunked_prefill"].value is False


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (("m", "--enable-lora", "--fully-sharded-loras"), "not-counted"),
        (("m", "--enable-lora", "--lora-dtype", "float32"), "not-counted"),
        (("m", "--mamba-cache-mode", "all"), "not-counted"),
        (("m", "--cpu-offload-gb", "10"), "not-counted"),
        (("m", "--quantization", "fp8"), "not-counted"),
        (("m", "--dtype", "float32"), "not-counted"),
        (
            ("m", "--speculative-config", '{"model": "d", "num_speculative_tokens": 3, "method": "medusa"}'),
            "not-counted",
        ),
        (
            ("m", "--speculative-config", '{"model": "d", "num_speculative_tokens": 3, "quantization": "fp8"}'),
            "not-counted",
        ),
        (("m", "--speculative-config", '{"model": "d", "num_speculative_tokens": 3, "method": "mtp"}'), "not-counted"),
        (("m", "--max-model-length", "8192"), "unknown-flag"),
        (("m", "--config=x.yaml"), "bad-argument"),
    ],
)
def test_what_a_plan_does_not_count_is_told(words: tuple[str, ...], rule: str):
    _, warned, errors = read(*words)
    assert (warned, errors) == ([rule], [])


@pytest.mark.parametrize(
    "words",
    [
        ("m", "--dtype", "auto", "--cpu-offload-gb", "0"),
        ("m", "--tool-call-parser", "hermes", "--enable-auto-tool-choice", "--port", "8000", "--api-key", "a", "b"),
        (
            "m",
            "--uvicorn-log-level",
            "info",
            "--headless",
            "--disable-custom-all-reduce",
            "--kv-offloading-size",
            "None",
        ),
        ("m", "--watermark", "0.0", "--mm-ipc-gpu-memory-gb", "0", "--runner", "generate", "--no-enable-eplb"),
        ("m", "--compilation-config", '{"cudagraph_mode": "FULL"}', "-O3"),
    ],
)
def test_what_does_not_touch_memory_is_silent(words: tuple[str, ...]):
    layer, warned, errors = read(*words)
    assert (layer, warned, errors) == ({"model": "m"}, [], [])


def test_what_is_said_of_the_checkpoint_is_kept_to_be_held_against_it():
    layer, warned, errors = read("m", "--dtype", "bfloat16", "--quantization", "awq")
    assert (layer, warned, errors) == ({"model": "m", "flags.dtype": "bfloat16", "flags.quantization": "awq"}, [], [])


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        (("--speculative-config", '{"method": "ngram", "num_speculative_tokens": 10}'), 10),
        (("--speculative-config", '{"model": "[ngram]", "num_speculative_tokens": 4, "prompt_lookup_max": 4}'), 4),
        (("--spec-method", "ngram", "--spec-tokens", "10"), 10),
        (("--spec-method", "suffix", "--spec-tokens", "6"), 6),
        (("--spec-method", "suffix"), 24),  # suffix_decoding_max_tree_depth
        (("--speculative-config", '{"method": "suffix", "suffix_decoding_max_tree_depth": 12}'), 12),
    ],
)
def test_tokens_that_are_guessed_from_the_text_are_drafted_too(words: tuple[str, ...], tokens: int):
    layer, warned, errors = read("m", *words)
    assert (layer["flags.num_speculative_tokens"], layer["drafting"]) == (tokens, "guessed")
    assert (warned, errors) == ([], [])


@pytest.mark.parametrize("method", ["medusa", "ngram_gpu", "custom_class", "dflash"])
def test_tokens_of_drafts_that_are_not_counted_are_drafted_all_the_same(method: str):
    layer, warned, errors = read("m", "--spec-method", method, "--spec-model", "x", "--spec-tokens", "10")
    assert (layer["flags.num_speculative_tokens"], "draft" in layer) == (10, False)
    assert (warned, errors) == (["not-counted"], [])


def test_what_a_flag_of_the_scheduler_says_is_counted():
    layer, warned, errors = read(
        "m", "--no-enable-chunked-prefill", "--performance-mode", "throughput", "--max-num-active-seqs", "2"
    )
    said = {
        "flags.enable_chunked_prefill": False,
        "flags.performance_mode": "throughput",
        "flags.max_num_active_seqs": "2",
    }
    assert (layer, warned, errors) == ({"model": "m", **said}, [], [])


@pytest.mark.parametrize(
    "words",
    [
        ("--performance-mode", "interactivity"), ("--watermark", "0.5"), ("--mm-ipc-gpu-memory-gb", "20"),
        ("--all2all-backend", "mori_high_throughput"), ("--max-num-scheduled-tokens", "100"), ("--runner", "pooling"),
        ("--compilation-config", '{"cudagraph_capture_sizes": [1, 2, 4]}'), ("--enable-dbo",), ("--enable-eplb",),
    ],
)  # fmt: skip
def test_what_moves_memory_and_is_not_counted_whole_is_told(words: tuple[str, ...]):
    _, warned, errors = read("m", *words)
    assert (warned, errors) == (["not-counted"], [])


def test_offloading_the_cache_is_a_connector():
    assert read("m", "--kv-offloading-size", "10")[0]["flags.kv_connector"] == "OffloadingConnector"
    layer, _, _ = read("m", "--kv-offloading-size", "10", "--kv-offloading-backend", "lmcache")
    assert layer["flags.kv_connector"] == "LMCacheMPConnector"


def test_a_flag_that_the_newest_release_lost_is_told_where_no_release_is_named():
    found = read_arguments([Word("m", 1), Word("--swap-space", 2), Word("4", 2)], "f", lambda _: None, positional=True)
    (remark,) = releases.remarks(found.given, releases.Asked(None))
    assert (remark.level, remark.text) == (
        "warn",
        f"vLLM {text(NEWEST)} has no flag --swap-space, which 0.17.1 had last",
    )
    (remark,) = releases.remarks(found.given, releases.Asked(text(NEWEST)))
    assert remark.level == "error"
    assert not list(releases.remarks(found.given, releases.Asked("0.17.0")))


def test_every_flag_is_counted_told_or_harmless_for_a_reason():
    """A flag that a release brings is in none of the tables until somebody has read what it does."""
    counted = {
        *MEANINGS,
        *speculative.FLAGS,
        transfer.TRANSFER,
        transfer.PUBLISHED,
        transfer.OFFLOADED,
        transfer.BACKEND,
    }
    every = {*FLAGS, *names.EARLIER}
    assert not every - counted - HARMLESS.keys()
    assert not counted & HARMLESS.keys()
    assert not PLANNED.keys() & UNCOUNTED.keys()
    assert set(HARMLESS) <= every
    assert all(HARMLESS.values())


def test_no_graphs_by_other_words():
    assert read("m", "-O0")[0]["flags.enforce_eager"] == "true"
    assert read("m", "--compilation-config", '{"cudagraph_mode": "NONE"}')[0]["flags.enforce_eager"] == "true"


@pytest.mark.parametrize("limits", ["2", "[]", '"image"', "true", "1e999"])
def test_limits_that_are_no_object_are_refused(limits: str):
    layer, warned, errors = read("m", "--limit-mm-per-prompt", limits)
    assert (layer, warned, errors) == ({"model": "m"}, [], ["bad-argument"])


def test_hidden_values_are_not_guessed():
    hidden = Word("$LEN", 2, "$LEN")
    nothing = lambda _: None  # noqa: E731
    found = layer_of(read_arguments([Word("m", 1), Word("--max-model-len", 2), hidden], "f", nothing, positional=True))
    assert found[("context",)] == Hidden(
        "$LEN", Place("f", 2), why="its --max-model-len is $LEN, which only the shell knows"
    )
    found = layer_of(read_arguments([hidden], "f", nothing, positional=True))
    assert found[("model",)] == Hidden("$LEN", Place("f", 2), why="its model is $LEN, which only the shell knows")
    found = read_arguments([Word("m", 1), Word("--api-key", 2), hidden], "f", nothing, positional=True)
    assert not found.remarks
    found = read_arguments([Word("m", 1), hidden], "f", nothing, positional=True)
    assert [(remark.rule, remark.place) for remark in found.remarks] == [("unread-arguments", Place("f", 2))]


@pytest.mark.parametrize(
    ("hidden", "words"),
    [("${EAGER:+--enforce-eager}", ("m",)), ("$NCCL", ("--model", "m")), ("$NCCL", ("-tp", "2", "--model=m"))],
)
def test_a_word_that_is_no_model(hidden: str, words: tuple[str, ...]):
    given = [Word(hidden, 1, hidden), *(Word(word, 1) for word in words)]
    found = read_arguments(given, "f", lambda _: None, positional=True)
    assert found.flags["model"].text == "m"
    assert [remark.rule for remark in found.remarks] == ["unread-arguments"]


def test_a_config_that_is_not_here():
    with pytest.raises(CantRead, match=r"x\.yaml is not here"):
        read("--config", "x.yaml")


@pytest.mark.parametrize(
    "words",
    [
        ("--gpu-memory-utilization", "90"), ("--gpu-memory-utilization=0",), ("--max-num-seqs", "0"), ("-tp", "two"),
        ("--max-model-len", "0"), ("--max-model-len", "8kk"), ("--max-model-len",), ("--max-model-len", "--enforce-eager"),
        ("--quantization", "banana"), ("--dtype", "banana"), ("--enable-lora", "--max-lora-rank", "7"),
        ("--kv-cache-dtype", "bf16"), ("--kv-cache-dtype", "q8_0"), ("--enable-lora", "--max-loras", "0"),
        ("--spec-model", "d", "--spec-tokens", "0"), ("--spec-model", "d", "--spec-method", "eagle3"),
        ("--spec-model", "d", "--speculative-config", '{"model": "d", "num_speculative_tokens": 1}'),
        ("--long-prefill-token-threshold", "9000", "--max-model-len", "8192"),
        ("--spec-method", "ngram"), ("--spec-method", "ngram", "--spec-tokens", "0"),
    ],
)  # fmt: skip
def test_what_vllm_refuses_is_an_error(words: tuple[str, ...]):
    _, warned, errors = read("m", *words)
    assert (warned, errors) == ([], ["bad-argument"])


def test_a_config_that_is_no_yaml_is_told_where_it_is_named():
    with pytest.raises(CantRead, match="can't be read") as caught:
        read("--config", "x.cfg", config="a: [")
    assert caught.value.place == Place("f", 2)


def test_every_flag_with_a_meaning_is_a_flag_of_some_release():
    assert set(MEANINGS) <= names.KNOWN


@pytest.mark.parametrize(
    ("flag", "release", "takes"),
    [  # read in each release's engine/arg_utils.py by hand
        ("enable-chunked-prefill", (0, 8, 4), "optional"),  # action=StoreBoolean, nargs="?"
        ("enable-chunked-prefill", (0, 33, 0), "switch"),
        ("collect-detailed-traces", (0, 6, 0), "value"),
        ("collect-detailed-traces", (0, 33, 0), "several"),  # list[DetailedTraceModules] | None
        ("cuda-graph-sizes", (0, 12, 0), "several"),
        ("hf-token", (0, 33, 0), "optional"),  # bool | str | None
        ("device-ids", (0, 33, 0), "value"),  # split at its commas
        ("compilation-config", (0, 33, 0), "value"),
        ("served-model-name", (0, 33, 0), "several"),
        ("api-key", (0, 33, 0), "several"),
        ("allowed-origins", (0, 33, 0), "value"),  # its nargs are deleted
        ("lora-modules", (0, 33, 0), "several"),
        ("headless", (0, 33, 0), "switch"),
        ("monokernel", (0, 33, 0), "switch"),
        ("mm-device-do-normalize", (0, 33, 0), "switch"),  # its kwargs are unpacked inside of others
    ],
)
def test_what_follows_a_flag(flag: str, release: tuple[int, int, int], takes: str):
    assert names.takes(flag, release) == takes


def remarks_of(version: str, *words: str) -> list[tuple[str, str]]:
    """Rules and texts of a command whose image has a release."""
    command = f"docker run --gpus 1 vllm/vllm-openai:v{version} m {' '.join(words)}\n"
    (served,) = parse(command, "run.sh", WorkingTree()).commands
    return [(remark.rule, remark.text) for remark in served.remarks]


def test_a_flag_that_the_release_lacks_has_no_other_remark():
    redundant = "--num-redundant-experts: redundant experts are not counted: each rank holds more weights than planned"
    assert remarks_of("0.10.2", "--num-redundant-experts", "4") == [("not-counted", redundant)]
    lost = "vLLM 0.33.0 has no flag --num-redundant-experts, which 0.11.2 had last"
    assert remarks_of("0.33.0", "--num-redundant-experts", "4") == [("unknown-flag", lost)]
    assert read("m", "--num-redundant-experts", "4")[1:] == (["not-counted", "unknown-flag"], [])
    (command,) = parse("vllm serve m --num-redundant-experts 4\n", "run.sh", WorkingTree()).commands
    assert [remark.rule for remark in command.remarks_on("0.10.2")] == ["not-counted"]
    assert [remark.rule for remark in command.remarks_on("0.19")] == ["unknown-flag"]


def test_a_remark_names_the_release_that_is_asked_for():
    (command,) = parse("vllm serve m --max-num-sequences 4 --watchdog-config {}\n", "run.sh", WorkingTree()).commands
    texts = {
        engine: [remark.text for remark in command.remarks_on(release_of(engine))]
        for engine in ("vllm@0.19", "vllm", "ideal", "ideal@0.19", "another@0.19")
    }
    meant = "has no flag --max-num-sequences; did you mean --max-num-seqs?"
    assert texts["vllm@0.19"] == [
        f"vLLM 0.19 {meant}",
        "vLLM 0.19 has no flag --watchdog-config, which came with 0.33.0",
    ]
    others = [said for engine, said in texts.items() if engine != "vllm@0.19"]
    assert others == [[f"vLLM {text(NEWEST)} {meant}"]] * 4


def test_switches_that_once_took_a_value():
    pod = "docker run --gpus 1 vllm/vllm-openai:v{} m --enable-chunked-prefill False --max-num-batched-tokens 4096 --max-model-len 8192\n"
    (old,) = parse(pod.format("0.8.4"), "run.sh", WorkingTree()).commands
    assert (old.layer["flags", "enable_chunked_prefill"].value, old.remarks) == (False, ())
    (new,) = parse(pod.format("0.33.0"), "run.sh", WorkingTree()).commands
    assert [remark.text for remark in new.remarks] == ["vLLM doesn't expect 'False' here"]
    assert read("m", "--hf-token", "--enforce-eager")[1:] == ([], [])


def test_a_level_of_compilation_on_a_release_without_levels_of_optimization():
    assert FLAGS["optimization-level"].startswith("0.1")
    assert remarks_of("0.10.2", "-O3") == remarks_of("0.33.0", "-O3") == []
    (command,) = parse("docker run --gpus 1 vllm/vllm-openai:v0.10.2 m -O0\n", "run.sh", WorkingTree()).commands
    assert command.layer["flags", "enforce_eager"].value == "true"


@pytest.mark.parametrize(
    "given",
    [
        '--mm-processor-kwargs "$X"', "--limit-mm-per-prompt $X", "--load-format $X", "--task $X", "--cudagraph-capture-sizes 1 $X",
        "--cpu-offload-gb=$X", "--attention-backend $X", "--num-scheduler-steps $X", "--eplb-config $X",
    ],
)  # fmt: skip
def test_an_unknown_value_that_a_plan_does_not_count_is_warned_of_and_the_rest_planned(given: str) -> None:
    served = parse(f"X=$(cat conf)\nvllm serve m --max-model-len 8192 {given}\n", "s.sh", WorkingTree())
    (command,) = served.commands
    assert command.layer[("context",)].value == 8192
    (remark,) = (remark for remark in command.noted)
    assert (remark.rule, remark.level) == ("not-counted", "warn")


@pytest.mark.parametrize(
    "flag", ["max-model-len", "all2all-backend", "quantization", "spec-tokens", "compilation-config"]
)
def test_an_unknown_value_that_a_plan_is_made_of_leaves_the_command_unread(flag: str) -> None:
    served = parse(f"X=$(cat conf)\nvllm serve m --{flag} $X\n", "s.sh", WorkingTree())
    assert not served.commands
    assert [unread.why for unread in served.unread] == [f"its --{flag} is $X, which only the shell knows"]
