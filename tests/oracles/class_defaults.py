"""Remake `kvplan/families/class_defaults.json`: what transformers fills in when a config.json is silent.

    python3.11 -m venv hf
    hf/bin/pip install transformers==5.23.0 torch
    hf/bin/python tests/oracles/class_defaults.py kvplan/families/class_defaults.json
    old/bin/pip install transformers==5.19.0
    old/bin/python tests/oracles/class_defaults.py --flat kvplan/families/class_defaults.json

For every generative model type, and for every type nested in one, the file holds the defaults of the configuration
class for the fields that decide the size of caches, states, weights and context. A field is spelled as its class spells
it. "encoders" lists the types that transformers classifies, detects and compares with, and generates with under no class. The value is the raw default of the class, with these extra keys beside the fields:

attribute_map   {standard name: own name}, as the class declares it
derived         {field: [fields]}: the class computes the field from these others when its own default is null (or
                says "auto", or is switched off); found by changing one integer or boolean field at a time
effective       {field: value}: with all defaults, the class ends with this value instead of its own raw default
lists           {field: {"prefix", "cycle", "suffix"}}: the per-layer list the class computes when the file has none;
                layer i takes prefix[i], or suffix counted from the end, or cycle[(i - len(prefix)) % len(cycle)].
                Checked at several depths; a list that follows no such law at another depth is run-length coded as
                "runs", for the class's own default depth only; a list of layer numbers is given as "indices".
                "reversed" holds the law of the list read from its end
nullable        [fields]: of those with a number or a switch as their default, the ones for which the class takes null
strict          [fields]: all others, of any name and default, for which it takes none; rope_theta where the class keeps the
                null in rope_parameters, which nothing can be computed from
last            {field: entry}: what the class writes over the last entry of a list that the file has
flat            true where fields beside the nested text configuration reach it: its layers follow the outer count
flat_until      the older release whose class reads them, where this one's doesn't: vLLM 0.33 needs transformers < 5.21
architectures   the classes that run or generate with the type
sub_configs     {key: {"model_type": type, field: default}}: the nested configuration made when the file has none;
                fields appear only where they differ from the defaults of that type, or where the type is not listed
kwargs          {field: default}: names the class accepts beside its fields, with the default it uses for each
kinds           beside the types: {"fields": {name: letters}, "types": {type: {name: letters}}}, what JSON values the class takes for
                its "strict" and number fields: b a switch, i a whole number, f one with a point, s a text, l a list, d an object, n
                null; by the name of a field for most types, and by type for the others, "" where it may be anything
cannot_build    why the class rejects its own defaults; only raw defaults are then known
"""

import ast
import contextlib
import dataclasses
import inspect
import json
import os
import re
import sys
import textwrap
import types
import typing
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
import transformers
from huggingface_hub.errors import StrictDataclassFieldValidationError
from transformers import PreTrainedConfig
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

GENERATIVE = ("CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "SEQ_TO_SEQ_CAUSAL_LM", "MULTIMODAL_LM", "SPEECH_SEQ_2_SEQ")
ENCODING = (
    "MASKED_LM", "TOKEN_CLASSIFICATION", "QUESTION_ANSWERING", "DOCUMENT_QUESTION_ANSWERING", "IMAGE", "IMAGE_CLASSIFICATION",
    "VIDEO_CLASSIFICATION", "AUDIO_CLASSIFICATION", "CTC", "OBJECT_DETECTION", "ZERO_SHOT_IMAGE_CLASSIFICATION",
    "ZERO_SHOT_OBJECT_DETECTION", "VISUAL_QUESTION_ANSWERING",
)  # fmt: skip
RECURRENT = frozenset(("imagegpt",))  # classifies images, and generates them token by token with a cache
STANDARD = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "layer_types")

# Fields that change no size: regularization, initial values, numerics, activations, tokens, losses, run-time switches.
IGNORED = re.compile(
    r"""_.* | .*_token_ids? | .*_token_index | .*_(start|end|newline|patch|lang)_id | lang_id | newline_id | .*_index
    | .*drop(out|path|_path|_rate)?(_.*)? | .*pdrop | .*layerdrop | dropout.* | .*eps(ilon)?(_.*)? | .*init.* | .*_std
    | rope_.* | .*rope_(theta|scaling|parameters).* | .*rope$ | use_mem_rope | .*multipliers? | .*scal(e|es|ing)(_.*)?
    | .*scaling_factor | scale_.* | .*coef.* | .*loss.* | .*temperature.* | .*threshold.* | mask_.* | .*mask_token
    | .*_act | .*activation.* | .*act_fn | afn | ffn_act.* | .*softcap.* | .*soft_cap.* | .*logit.* | summary_.* | .*_scaling_n_floor
    | use_cache | return_.* | output_.*(states|attentions|logits) | scoring_func | topk_.* | n_group | num_expert_group
    | norm_topk_prob | time_step_(?!rank).* | .*jitter.* | .*chunk_size | chunk_.* | pretraining_tp | use_.*(kernels|mambapy|scan|path)
    | classifier.* | .*suppress.* | image_grid_pinpoints | supported_.* | lang(s|uages) | norm_(mean|std) | position_bias_.*
    | .*_alpha.* | .*beta.* | .*clip.* | (max|min)_new_tokens | ignore_keys.* | problem_type | id2label | label2id | architectures
    | transformers_version | chunk_size_.* | num_labels | is_decoder | add_cross_attention | tokenizer_class | name_or_path
    | .*_(rate|seconds?|ms|s)$(?<!rms_norm)(?<!heads)(?<!layers)(?<!experts) | num_beams | length_penalty | early_stopping
    | .*sinkhorn.* | mode | weight_mode | step_kernel | sequence_kernel | chunkwise_kernel | autocast.* | .*_seed | seed
    | tdnn.* | .*negatives | ctc.* | xvector.* | feat_.* | apply_spec.* | guided.* | default_(language|num_delay.*)
    | .*_order | dtype | attn_implementation | per_layer_config | tie_last_hidden_states | embedding_fraction | time_sampling.*
    | spatial_target_layers | .*feature_select_strategy | .*aspect_ratio | interpolate_mode | torch_dtype | use_mems.* | mem_len
    | freeze.* | .*max_distance | num_logits_to_keep | moe_(renormalize|apply.*|.*overlap|norm_min|.*fraction) | attention_softmax.*
    | enable_moe_fp32_combine | .*fp32.* | norm_reduction.* | router_(dtype|ignore.*|.*prob.*) | .*_inference_.* | kda_.*
    | linear_(a_log|dt).*  | linear_lower_bound | linear_allow.* | altup_coef.* | floor_.* | query_pre.* | second_expert.* | bi_data
    | residual_in.* | swiglu.* | median_filter_width | attn_temperature_tuning | activation_sparsity.* | .*normalize.* | batch_prioritized.* | .*capacity.*
    """,
    re.VERBOSE,
)
KEPT = re.compile(
    r"""partial_rotary_factor | block_ffn_dim_multiplier | (spatial_)?scale_factor | pixel_shuffle_ratio | attention_chunk_size
    | .*(expansion|expand).* | .*_state_dtype | .*ssm.*dtype | .*attn_type.* | attention_type.* | .*layer_(start|end)_index
    | block_auto_adjust_ff_dim | mlp_ratio | .*_proj_factor | .*dim_factor | .*downsample_(factor|rate|ratio) | initial_.*
    | chunk_attention.* | sliding_window.* | .*local_attn_chunk_length | .*num_buckets | rms_norm_type | enable_moe_block
    | use_clip.* | indexer_.* | index_.*
    """,
    re.VERBOSE,
)
MAX_LIST = 64
Json = dict[str, Any]


def sizes(name: str) -> bool:
    """Say whether a field can change the size of a cache, a state, the weights or the context."""
    return bool(KEPT.fullmatch(name)) or not IGNORED.fullmatch(name)


def plain(value: Any) -> bool:
    """Say whether a value is a JSON scalar or a short list of them (or of lists of them)."""
    if isinstance(value, (list, tuple)):
        return len(value) <= MAX_LIST and all(plain(item) for item in value)
    if isinstance(value, dict):
        return len(value) <= MAX_LIST and all(isinstance(k, str) and plain(v) for k, v in value.items())
    return value is None or isinstance(value, (bool, int, float, str))


def is_layer_list(name: str, value: Any) -> bool:
    """Say whether a field is a list with an entry for each layer (or the numbers of some layers)."""
    return (
        isinstance(value, (list, tuple)) and len(value) > 0 and ("layer" in name or "types" in name or "idxs" in name)
    )


def generative_types() -> set[str]:
    """List the model types that transformers can generate with."""
    return {name for task in GENERATIVE for name in getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES")}


def architectures(model_type: str) -> list[str]:
    """List the classes that run or generate with a model type."""
    tables = (getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES") for task in GENERATIVE)
    found = (table.get(model_type) for table in (modeling_auto.MODEL_MAPPING_NAMES, *tables))
    return sorted({name for each in found if each for name in ((each,) if isinstance(each, str) else each)})


def encoders() -> list[str]:
    """List the model types that read their whole input at once and generate nothing."""
    found = {name for task in ENCODING for name in getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES")}
    return sorted(found - generative_types() - RECURRENT)


def config_class(model_type: str) -> type[PreTrainedConfig]:
    found: type[PreTrainedConfig] = CONFIG_MAPPING[model_type]
    return found


def raw_defaults(cls: type[PreTrainedConfig]) -> Json:
    """Read the defaults from the fields of a class, before it computes anything."""
    base = {field.name for field in dataclasses.fields(PreTrainedConfig)} - {"is_encoder_decoder"}
    out: Json = {}
    for field in dataclasses.fields(cls):
        if field.name in base or field.name in cls.sub_configs_defaults:
            continue
        name = cls.attribute_map.get(field.name, field.name)
        if field.default is not dataclasses.MISSING:
            out[name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            out[name] = field.default_factory()
        else:
            out[name] = None
    if not out.get("is_encoder_decoder"):
        out.pop("is_encoder_decoder", None)
    return out


def visible(config: PreTrainedConfig) -> Json:
    """Read what an instance holds: its attributes and the properties its class computes."""
    base = {field.name for field in dataclasses.fields(PreTrainedConfig)}
    out = {k: v for k, v in vars(config).items() if k not in base and not isinstance(v, PreTrainedConfig)}
    for name in STANDARD:
        if name not in config.attribute_map:
            with contextlib.suppress(Exception):
                out.setdefault(name, getattr(config, name))
    return out


def accepted_kwargs(cls: type[PreTrainedConfig]) -> Json:
    """Find `kwargs.get("name", constant)` and `kwargs.pop(...)` in the code that completes an instance."""
    if cls.__post_init__ is PreTrainedConfig.__post_init__:
        return {}
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls.__post_init__)))
    except (OSError, TypeError, SyntaxError):
        return {}
    found: Json = {}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("get", "pop")
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "kwargs"
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            default = None
            if len(node.args) > 1:
                with contextlib.suppress(ValueError):
                    default = ast.literal_eval(node.args[1])
            found[str(node.args[0].value)] = default
    return found


def changed(value: Any) -> Iterable[Any]:
    """Suggest other values for a field, to see what depends on it."""
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return (2 * value, value + 1, max(1, value // 2))
    return ()


def dependencies(cls: type[PreTrainedConfig], start: Json, unknown: Iterable[str], raw: Json) -> dict[str, list[str]]:
    """Change one field at a time and see which computed fields follow."""
    out: dict[str, list[str]] = {name: [] for name in unknown}
    for field, value in raw.items():
        for other in changed(start.get(field) if value is None else value):
            after = start
            with contextlib.suppress(Exception):  # a class may reject any combination
                after = visible(cls(**{field: other}))
            for name, fields in out.items():
                if name != field and after.get(name) != start.get(name) and field not in fields:
                    fields.append(field)
    return {name: sorted(fields) for name, fields in out.items()}


def law(lists: dict[int, list[Any]]) -> Json | None:
    """Find the shortest prefix, cycle and suffix that give the list at every depth."""
    for total in range(1, 13):
        for suffix_length in range(min(total, 3)):
            for prefix_length in range(total - suffix_length):
                period = total - suffix_length - prefix_length
                longest = max(lists)
                sample = lists[longest]
                if prefix_length + period + suffix_length > longest:
                    continue
                prefix = sample[:prefix_length]
                cycle = sample[prefix_length : prefix_length + period]
                suffix = sample[longest - suffix_length :]
                if all(values == spread(prefix, cycle, suffix, depth) for depth, values in lists.items()):
                    return {k: v for k, v in (("prefix", prefix), ("cycle", cycle), ("suffix", suffix)) if v}
    return None


def spread(prefix: list[Any], cycle: list[Any], suffix: list[Any], depth: int) -> list[Any]:
    """Lay prefix, cycle and suffix over a number of layers."""
    middle = [cycle[i % len(cycle)] for i in range(max(0, depth - len(prefix) - len(suffix)))]
    return (prefix + middle + suffix)[:depth] if depth >= len(prefix) + len(suffix) else []


def runs(values: list[Any]) -> list[list[Any]]:
    """Run-length code a list."""
    out: list[list[Any]] = []
    for value in values:
        if out and out[-1][1] == value:
            out[-1][0] += 1
        else:
            out.append([1, value])
    return out


def layer_list(cls: type[PreTrainedConfig], name: str, value: Any) -> Json:
    """Describe a per-layer list that a class computes."""
    own = list(value)
    if all(isinstance(item, int) for item in own) and own == sorted(set(own)) and len(own) > 2:
        return {"indices": "all" if own == list(range(len(own))) and len(own) > 8 else own}
    depth_field = cls.attribute_map.get("num_hidden_layers", "num_hidden_layers")
    lists: dict[int, list[Any]] = {}
    try:
        depth = int(getattr(cls(), depth_field))
    except Exception:
        return {"runs": runs(own)}
    for extra in (0, 1, 2, 5, 6, 7, 12):
        made = None
        with contextlib.suppress(Exception):
            deeper: Json = {depth_field: depth + extra}
            made = list(visible(cls(**deeper))[name])
        if made is not None and len(made) != depth + extra:
            return {"runs": runs(own)}
        if made is not None:
            lists[depth + extra] = made
    found = either_end(lists) if len(lists) > 1 else None
    return found or {"runs": runs(own)}


def either_end(lists: dict[int, list[Any]]) -> Json | None:
    """Find the law of a list counted from its beginning, else counted from its end."""
    found = law(lists)
    if found is not None:
        return found
    counted_back = law({depth: values[::-1] for depth, values in lists.items()})
    return None if counted_back is None else {"reversed": counted_back}


def last_entry(cls: type[PreTrainedConfig], name: str, value: Any) -> Any:
    """Say what a class writes over the last entry of a list of words that it is given; None where it leaves it."""
    if not all(isinstance(entry, str) for entry in value):
        return None
    for entry in sorted(set(value) - {value[-1]}):
        with contextlib.suppress(Exception):  # a class may take no list of one kind
            made = list(visible(cls(**{name: [entry] * len(value)}))[name])
            if made[:-1] == [entry] * (len(value) - 1) and made[-1] != entry:
                return made[-1]
    return None


def tidy(value: Any) -> Any:
    """Turn tuples into lists, so that JSON and Python agree."""
    if isinstance(value, (list, tuple)):
        return [tidy(item) for item in value]
    if isinstance(value, dict):
        return {key: tidy(item) for key, item in value.items()}
    return value


def nested(cls: type[PreTrainedConfig]) -> tuple[Json, set[str]]:
    """Describe the nested configurations of a class, and name their types."""
    out: Json = {}
    types: set[str] = set()
    for key, spec in sorted(cls.sub_configs_defaults.items()):
        known = spec.model_type in CONFIG_MAPPING and (
            not issubclass(spec.config_class, PreTrainedConfig) or CONFIG_MAPPING[spec.model_type] is spec.config_class
        )
        entry: Json = {"model_type": spec.model_type} if spec.model_type else {}
        if known:
            types.add(spec.model_type)
        else:
            entry |= {k: tidy(v) for k, v in raw_defaults(spec.config_class).items() if sizes(k) and plain(v)}
        entry |= {k: tidy(v) for k, v in spec.init_kwargs.items() if sizes(k) and plain(v)}
        if spec.optional:
            entry["optional"] = True
        out[key] = entry
    with contextlib.suppress(Exception):
        for key, value in sorted(vars(cls()).items()):
            if isinstance(value, PreTrainedConfig) and key not in out:
                out[key] = {k: tidy(v) for k, v in raw_defaults(type(value)).items() if sizes(k) and plain(v)}
    return out, types


def nullable(cls: type[PreTrainedConfig], line: Json) -> list[str]:
    """List the fields that have a number or a switch by default and for which the class takes null all the same."""
    return sorted(name for name, value in line.items() if isinstance(value, (int, float)) and takes_null(cls, name))


def strict(cls: type[PreTrainedConfig], line: Json) -> list[str]:
    """List the fields, also those that change no size, that refuse null and that `nullable` isn't about."""
    judged = {name for name, value in line.items() if isinstance(value, (int, float))} - set(line.get("nullable", ()))
    named = {field.name for field in dataclasses.fields(cls)} | set(cls.attribute_map) | set(cls.attribute_map.values())
    refused = {name for name in named - {"model_type"} if not takes_null(cls, name)}
    return sorted((refused | ({"rope_theta"} if keeps_no_base(cls) else set())) - judged)


def keeps_no_base(cls: type[PreTrainedConfig]) -> bool:
    """Say whether a class builds rotary positions of a null base."""
    with contextlib.suppress(Exception):  # refused otherwise, or not read
        found = cls.from_dict({"rope_theta": None}).rope_parameters or {}
        each = (found, *(inner for inner in found.values() if isinstance(inner, dict)))
        return any("rope_theta" in inner and inner["rope_theta"] is None for inner in each)
    return False


def takes_null(cls: type[PreTrainedConfig], name: str) -> bool:
    """Say whether a class doesn't refuse null for a field: it may refuse what follows from it."""
    try:
        cls(**{name: None})
    except StrictDataclassFieldValidationError as error:
        return f"'{name}'" not in str(error)
    except Exception:
        return True
    return True


def reads_flat(cls: type[PreTrainedConfig]) -> bool:
    """Say whether a layer count beside the nested text configuration becomes that configuration's own."""
    with contextlib.suppress(Exception):
        whole = cls()
        text = whole.get_text_config(decoder=True)
        flat: Json = {"num_hidden_layers": text.num_hidden_layers + 1}
        found: int = cls(**flat).get_text_config(decoder=True).num_hidden_layers
        return text is not whole and found == text.num_hidden_layers + 1
    return False


def describe(cls: type[PreTrainedConfig]) -> tuple[Json, set[str]]:
    """Describe one configuration class, and name the types nested in it."""
    raw = {k: v for k, v in raw_defaults(cls).items() if sizes(k)}
    subs, types = nested(cls)
    line: Json = {k: tidy(v) for k, v in raw.items() if plain(v) and k not in subs}
    names = {k: v for k, v in cls.attribute_map.items() if sizes(k) and sizes(v)}
    kwargs = {k: v for k, v in accepted_kwargs(cls).items() if sizes(k) and k not in raw}
    more = {
        "attribute_map": names,
        "kwargs": kwargs,
        "sub_configs": subs,
        "architectures": architectures(cls.model_type),
    }
    more["flat"] = bool(subs) and reads_flat(cls)
    try:
        start = {k: v for k, v in visible(cls()).items() if sizes(k)}
    except Exception as error:
        line["cannot_build"] = " ".join(str(error).split())[:160]
    else:
        fields, computed = complete(cls, raw, start)
        line |= fields
        more |= computed
    more["nullable"] = nullable(cls, line)
    more["strict"] = strict(cls, {**line, "nullable": more["nullable"]})
    return line | {k: v for k, v in more.items() if v}, types


def complete(cls: type[PreTrainedConfig], raw: Json, start: Json) -> tuple[Json, Json]:
    """Find what a class computes: the constants among it, and the rest as lists, derived and effective fields."""
    computed = [k for k, v in start.items() if raw.get(k) is None and v is not None]
    lists = {k: layer_list(cls, k, start[k]) for k in computed if is_layer_list(k, start[k])}
    last = {k: entry for k in lists if (entry := last_entry(cls, k, start[k])) is not None}
    scalars = [k for k in computed if k not in lists and plain(start[k])]
    effective = {
        k: tidy(start[k])
        for k, v in raw.items()
        if v is not None and k in start and tidy(start[k]) != tidy(v) and plain(start[k])
    }
    found = dependencies(cls, start, [*scalars, *effective], raw)
    derived = {k: v for k, v in sorted(found.items()) if v}
    constants = {k: None if k in derived else tidy(start[k]) for k in scalars}
    return constants, {"lists": lists, "last": last, "derived": derived, "effective": effective}


def collect() -> Json:
    """Describe all generative types and everything nested in them."""
    found: Json = {}
    waiting = sorted(generative_types())
    while waiting:
        model_type = waiting.pop()
        if model_type in found:
            continue
        found[model_type], inner = describe(config_class(model_type))
        waiting += sorted(inner - set(found))
    return found


LETTERS = {bool: "b", int: "i", float: "f", str: "s", list: "l", tuple: "l", dict: "d", type(None): "n"}


def letters(annotation: Any) -> str:
    """What JSON values an annotation takes, as letters; empty where that isn't known."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        parts = [letters(part) for part in typing.get_args(annotation)]
        return "".join(sorted(set("".join(parts)))) if all(parts) else ""
    if origin is typing.Literal:
        return "".join(sorted({LETTERS[type(value)] for value in typing.get_args(annotation)}))
    return LETTERS.get(origin or annotation, "")


def own_letters(cls: type[PreTrainedConfig], names: Iterable[str]) -> dict[str, str]:
    """Letters of those of the fields that a class has; none of one that isn't strict."""
    if "__class_validators__" not in vars(cls):
        return {}
    hints = typing.get_type_hints(cls, localns={"torch": torch})
    return {name: letters(hints[name]) for name in names if name in hints}


def kinds(described: Json) -> Json:
    """What types of values the classes take: by field, and by type where that is another one."""
    found = {}
    for model_type, line in described.items():
        numbers = (name for name, value in line.items() if isinstance(value, (int, float)))
        found[model_type] = own_letters(config_class(model_type), {*line.get("strict", ()), *numbers})
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    for each in found.values():
        for name, value in each.items():
            counted[name][value] += 1
    usual = {name: each.most_common(1)[0][0] for name, each in sorted(counted.items())}
    other = {
        model_type: {name: value for name, value in sorted(each.items()) if value != usual[name]}
        for model_type, each in sorted(found.items())
    }
    return {"fields": usual, "types": {name: each for name, each in other.items() if each}}


def written(table: Json) -> str:
    """Lay the table out, one type a line."""
    described = table["types"]
    rows = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(described[name], sort_keys=True)}" for name in sorted(described)
    )
    others = "".join(f"{json.dumps(name)}: {json.dumps(table[name])},\n" for name in ("source", "encoders", "kinds"))
    return f'{{{others}"types": {{\n{rows}\n}}}}\n'


def with_older_flat(table: Json) -> Json:
    """Add what this, an older release, reads at the top and the table's doesn't."""
    for name, values in table["types"].items():
        values.pop("flat_until", None)
        if (
            "sub_configs" in values
            and "flat" not in values
            and name in CONFIG_MAPPING
            and reads_flat(config_class(name))
        ):
            values["flat_until"] = transformers.__version__
    return table


def main(path: Path, *, older: bool) -> None:
    warnings.filterwarnings("ignore")
    if older:
        table = with_older_flat(json.loads(path.read_text(encoding="utf-8")))
    else:
        source = f"transformers {transformers.__version__} configuration classes"
        table = {"source": source, "encoders": encoders(), "types": collect()}
        table["kinds"] = kinds(table["types"])
    path.write_text(written(table), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[-1]), older="--flat" in sys.argv)
