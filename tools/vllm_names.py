"""Remakes kvplan/engines/vllm/tables/nameless.py: the classes that vLLM uses for configs that name none.

    python tools/vllm_names.py TRANSFORMERS

TRANSFORMERS is the folder of the Transformers library. Nothing is imported from it.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from kvplan.engines.vllm.tables.registered import CLASSES

TABLE = Path(__file__).parents[1] / "kvplan" / "engines" / "vllm" / "tables" / "nameless.py"
HEAD = '''\
"""Model classes by the type that a config states, where it names no class.

Source: MODEL_MAPPING_NAMES and MODEL_FOR_CAUSAL_LM_MAPPING_NAMES of Transformers {release} models/auto/modeling_auto.py, which
vLLM 0.33 transformers_utils/config.py (a whole config) and config/vllm.py with_hf_config (a part) look into.

Made by tools/vllm_names.py; not written by hand. A part has its class only where vLLM registers it.
"""

from __future__ import annotations

'''


def main(folder: Path) -> None:
    """Write the module."""
    tree = ast.parse((folder / "models" / "auto" / "modeling_auto.py").read_text(encoding="utf-8"))
    release = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    version = next(
        ast.literal_eval(node.value)
        for node in release.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__version__"
    )
    wholes = pairs(tree, "MODEL_MAPPING_NAMES")
    parts = {name: made for name, made in pairs(tree, "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES").items() if made in CLASSES}
    written = [
        HEAD.format(release=version),
        table("WHOLE", "Type of a whole config: class.", wholes) + "\n",
        table("PART", "Type of a language model inside another config: class.", parts),
    ]
    TABLE.write_text("".join(written), encoding="utf-8")


def pairs(tree: ast.Module, name: str) -> dict[str, str]:
    """One of the library's tables; the first class of a type that has several."""
    for node in ast.walk(tree):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if getattr(target, "id", "") == name and isinstance(node, ast.Assign | ast.AnnAssign):
            rows = next(each for each in ast.walk(node) if isinstance(each, ast.List))
            found = (ast.literal_eval(row) for row in rows.elts if isinstance(row, ast.Tuple))
            return {key: value if isinstance(value, str) else value[0] for key, value in sorted(found)}
    raise LookupError(name)


def table(name: str, says: str, rows: dict[str, str]) -> str:
    """One table as Python code."""
    lines = "\n".join(f'    "{key}": "{value}",' for key, value in rows.items())
    return f'{name} = {{\n{lines}\n}}\n"""{says}"""\n'


if __name__ == "__main__":
    main(Path(sys.argv[1]))
