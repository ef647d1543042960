"""Placeholders for values that another program fills in before the command is run: envsubst, Flux, Kustomize, Jinja, sed."""

from __future__ import annotations

import re
from dataclasses import replace

from kvplan.manifests.shell.parser import Word

_PLACEHOLDER = re.compile(
    r"\$\{[^}]*\}"  # envsubst, Flux's postBuild, Terraform
    r"|(?:^|(?<==))\$[A-Za-z_]\w*$"
    r"|\{\{.*?\}\}|\{%.*?%\}"  # Jinja, Go
    r"|(?<![\"{])\{[A-Za-z_][\w.]*\}"  # Python's str.format
    r"|%\{[A-Za-z]\}"  # systemd's specifiers, as units.py writes them
    r"|<[A-Za-z_][\w .-]*>|__[A-Z][A-Z0-9_]*__|@[A-Z][A-Z0-9_]*@",
    re.ASCII | re.DOTALL,
)


def marked(word: Word) -> Word:
    """The word, unknown where it holds a placeholder."""
    match = _PLACEHOLDER.search(word.text) if word.unknown is None else None
    return word if match is None else replace(word, unknown=match[0], whose="a template: render it first")
