"""What a person may type for MODEL, in which order it is taken, and what happens to what isn't one."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from kvplan.errors import BadFile, ConfigError, UnknownName, Unsupported, UsageError
from kvplan.sources.models import load_document, load_model

LLAMA = {
    "model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4,
    "hidden_size": 512, "vocab_size": 1000, "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(path: Path, config: object = LLAMA) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(config))
    return path


def test_file_folder_and_user_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(folder / "m" / "config.json")
    monkeypatch.setenv("HOME", str(folder))
    for name in ("m/config.json", "m", "./m/", "~/m", str(folder / "m")):
        document = load_document(name)
        assert document.config == LLAMA, name
        assert document.origin.id == name
        assert document.origin.source.endswith("/config.json")
    assert load_model("m").curve(load_model("m").kv_auto).bytes_at(1) == 2 * 4 * (64 + 64) * 2


def test_companions_beside_the_config(folder: Path) -> None:
    written(folder / "m" / "config.json")
    written(folder / "m" / "quantize_config.json", {"bits": 4})
    for name in ("m", "m/config.json"):
        assert load_document(name).companions == {"quantize_config.json": {"bits": 4}}
    written(folder / "m" / "config.json", LLAMA | {"quantization_config": {"quant_method": "fp8"}})
    assert load_document("m").companions == {}


def test_any_name_of_file(folder: Path) -> None:
    written(folder / "llama.json")
    written(folder / "llama.txt")
    (folder / "llama.yaml").write_text("kvplan: 1\nname: x\nlayers: 2\nkv_heads: 4\nhead_dim: 64\n")
    (folder / "description").write_text("kvplan: 1\nname: x\nlayers: 2\nkv_heads: 4\nhead_dim: 64\n")
    for name in ("llama.json", "llama.txt", "llama.yaml", "description"):
        model = load_model(name)
        assert model.curve(model.kv_auto).bytes_at(1) == 2 * 4 * (64 + 64) * 2


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    yaml = "# mine\nkvplan: 1\nname: x\nlayers: 2\nkv_heads: 4\nhead_dim: 64\n"
    for text, key in ((json.dumps(LLAMA), "model_type"), ("\n " + json.dumps(LLAMA), "model_type"), (yaml, "kvplan")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        document = load_document("-")
        assert key in document.config
        assert document.origin.source == "standard input"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(BadFile, match="standard input is empty"):
        load_document("-")


def test_nothing_is_waited_for_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    with pytest.raises(UsageError, match="nothing is piped"):
        load_document("-")


def test_bundled_name_in_any_case_and_by_alias(folder: Path) -> None:
    for name in ("llama-3-70b", "Llama-3-70B", " llama3-70b "):
        assert load_document(name).origin.id == "llama-3-70b"
    model = load_model("llama-3-70b")
    assert model.curve(model.kv_auto).bytes_at(1) == 327_680
    with pytest.raises(UsageError, match="--revision main needs a Hub id"):
        load_document("llama-3-70b", revision="main")


def test_a_path_comes_before_a_bundled_name(folder: Path) -> None:
    written(folder / "gpt2" / "config.json")
    assert load_document("gpt2").config == LLAMA
    (folder / "gpt2" / "config.json").unlink()
    with pytest.raises(BadFile, match="the folder gpt2 has no config") as caught:
        load_document("gpt2")
    assert "the bundled gpt2 is hidden by this" in (caught.value.problem.hint or "")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("llama-3-70", "llama-3-70b"), ("llama3-70", "llama-3-70b"), ("lama-3-8b", "llama-3-8b"), ("Llama 3 70B", "llama-3-70b"),
        ("deepseekv3", "deepseek-v3"), ("qwen3-next-80", "qwen3-next-80b-a3b"), ("gpt_oss_120b", "gpt-oss-120b"),
        ("mixtral-8x7", "mixtral-8x7b"),
    ],
)  # fmt: skip
def test_did_you_mean(folder: Path, name: str, meant: str) -> None:
    with pytest.raises(UnknownName, match="no model is called") as caught:
        load_document(name)
    assert meant in (caught.value.problem.hint or "")
    assert "org/name" in (caught.value.problem.hint or "")


@pytest.mark.parametrize(
    "name", ["zzzzzz", "a b", "org/na me", "org//name", "@", "x" * 5000, "a\x00b", "\ud800", "org/name@", "日本"]
)
def test_names_that_are_nothing(folder: Path, name: str) -> None:
    with pytest.raises((UnknownName, BadFile)) as caught:
        load_document(name)
    assert len(caught.value.problem.what) < 200


def test_empty_name() -> None:
    with pytest.raises(UsageError, match="name is empty"):
        load_document("  ")


def test_two_revisions(folder: Path) -> None:
    with pytest.raises(UsageError, match="different revisions"):
        load_document("org/name@v1", revision="v2")


def test_paths_that_are_not_there(folder: Path) -> None:
    written(folder / "m" / "config.json")
    cases = {
        "m/confg.json": ("no file or folder m/confg.json", "did you mean m/config.json?"),
        "./nowhere": ("no file or folder ./nowhere", ""),
        "no/such/folder/config.json": ("no file or folder", ""),
        "C:\\models\\config.json": ("no file or folder", ""),
        "a/b/c": ("no file or folder a/b/c", ""),
    }
    for name, (what, hint) in cases.items():
        with pytest.raises(BadFile) as caught:
            load_document(name)
        assert what in caught.value.problem.what
        assert hint in (caught.value.problem.hint or "")


def test_folder_without_a_config_lists_what_is_there(folder: Path) -> None:
    (folder / "m").mkdir()
    with pytest.raises(BadFile, match="has no config") as caught:
        load_document("m")
    assert caught.value.problem.cause == "it is empty"
    for number in range(12):
        (folder / "m" / f"file{number:02}.bin").touch()
    with pytest.raises(BadFile) as caught:
        load_document("m")
    assert "file00.bin" in (caught.value.problem.cause or "")
    assert "and 4 more" in (caught.value.problem.cause or "")


def test_gguf_is_refused_clearly(folder: Path) -> None:
    (folder / "a.gguf").write_bytes(b"GGUF\x03\x00\x00\x00")
    (folder / "blob").write_bytes(b"GGUF\x03\x00\x00\x00")
    (folder / "m").mkdir()
    (folder / "m" / "b.gguf").touch()
    for name in ("a.gguf", "blob", "m", "org/name/file.gguf"):
        with pytest.raises(Unsupported, match="is a GGUF file, which kvplan can't read yet") as caught:
            load_document(name)
        assert "config.json" in (caught.value.problem.hint or "")


def test_files_of_other_kinds(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\x10\x00\x00\x00\x00\x00\x00\x00{}")
    (folder / "config.yaml").write_text("model_type: llama\n")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    for name, message in (
        ("model.safetensors", "contains weights"), ("config.yaml", "is not a kvplan description"), ("picture.png", "not UTF-8"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=message):
            load_document(name)


def test_endless_and_unreadable_files(folder: Path) -> None:
    if Path("/dev/zero").exists():
        with pytest.raises(BadFile, match="too large"):
            load_document("/dev/zero")
    (folder / "loop").symlink_to("loop")
    with pytest.raises((BadFile, UnknownName)):
        load_document("loop")


MISTRAL_7B = {
    "dim": 4096, "n_layers": 32, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32, "n_kv_heads": 8, "norm_eps": 1e-05,
    "sliding_window": 4096, "vocab_size": 32000,
}  # fmt: skip


def test_mistral_params(folder: Path) -> None:
    written(folder / "m" / "params.json", MISTRAL_7B)
    model = load_model("m")
    curve = model.curve(model.kv_auto)
    assert curve.bytes_at(1) == 32 * 8 * 256 * 2
    assert curve.bytes_at(10**6) == 4096 * 32 * 8 * 256 * 2  # the window caps it
    moe = {**MISTRAL_7B, "sliding_window": None, "moe": {"num_experts": 8, "num_experts_per_tok": 2}}
    written(folder / "x" / "params.json", moe)
    curve = load_model("x").curve(model.kv_auto)
    assert curve.slope_at(10**6) == 32 * 8 * 256 * 2
    pattern = {**MISTRAL_7B, "sliding_window": [None, 4096, 4096, 4096]}
    written(folder / "y" / "params.json", pattern)
    assert load_model("y").curve(model.kv_auto).slope_at(10**6) == 8 * 8 * 256 * 2


def test_mistral_params_with_a_latent(folder: Path) -> None:
    params = {
        "dim": 7168, "n_layers": 61, "head_dim": 192, "hidden_dim": 16384, "n_heads": 128, "n_kv_heads": 128,
        "vocab_size": 131072, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
        "v_head_dim": 128, "max_seq_len": 294912, "norm_eps": 1e-6,
        "moe": {"num_experts": 128, "num_experts_per_tok": 4, "expert_hidden_dim": 4096, "num_shared_experts": 1,
                "first_k_dense_replace": 3, "route_every_n": 1, "num_expert_groups": 1, "num_expert_groups_per_tok": 1},
    }  # fmt: skip
    written(folder / "m" / "params.json", params)
    model = load_model("m")
    assert model.curve(model.kv_auto).bytes_at(1) == 61 * (512 + 64) * 2


@pytest.mark.parametrize(
    "change",
    [{"new_attention": 3}, {"moe": {"mystery": 1}}, {"moe": 3}, {"sliding_window": "x"}, {"sliding_window": [1, 2]},
     {"sliding_window": [4096, None, None]}, {"quantization": {"what": 1}}, {"n_layers": 10**9, "sliding_window": [1]}],
)  # fmt: skip
def test_mistral_params_that_are_not_understood(folder: Path, change: dict[str, object]) -> None:
    written(folder / "m" / "params.json", MISTRAL_7B | change)
    with pytest.raises(ConfigError):
        load_model("m")


def test_a_bundled_model_costs_few_imports(folder: Path) -> None:
    code = (
        "import sys; from kvplan.sources.models import load_document; load_document('llama-3-70b');"
        "print([name for name in ('yaml', 'huggingface_hub', 'pydantic', 'rich', 'typer', 'kvplan.families', 'difflib') if name in sys.modules])"
    )
    root = Path(__file__).resolve().parents[2]
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert found.stdout == "[]\n"


@pytest.mark.parametrize(
    ("typed", "repository"),
    [
        ("llama-3.3-70b", "meta-llama/Llama-3.3-70B-Instruct"), ("llama-3.1-8b-instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("llama-2-70b-chat", "meta-llama/Llama-2-70b-chat-hf"), ("mixtral-8x7b-instruct", "mistralai/Mixtral-8x7B-Instruct-v0.1"),
        ("llama-3.1-70b", "meta-llama/Llama-3.1-70B"), ("meta-llama/Llama-3.3-70B-Instruct", "meta-llama/Llama-3.3-70B-Instruct"),
    ],
)  # fmt: skip
def test_a_short_name_serves_the_repository_of_that_name(typed, repository):
    from kvplan.sources.served import served_name

    assert served_name(load_model(typed, offline=True), typed) == repository


def test_only_a_config_by_its_own_name_is_served_from_its_folder(tmp_path):
    from kvplan.errors import UsageError
    from kvplan.sources.served import served_name

    text = (
        '{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2,'
        ' "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 512}'
    )
    for name in ("config.json", "mine.json"):
        (tmp_path / name).write_text(text)
    assert served_name(load_model(str(tmp_path / "config.json"))) == str(tmp_path)
    with pytest.raises(UsageError, match=r"mine\.json"):
        served_name(load_model(str(tmp_path / "mine.json")))
