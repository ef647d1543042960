"""Reads the receipts that `kvplan verify` writes. kvplan.plan.calibration interprets them."""

from __future__ import annotations

from pathlib import Path

from kvplan.errors import BadFile
from kvplan.sources.files import read_bytes
from kvplan.sources.strict import MAX_JSON_BYTES, decoded, parse_json_object


def read_receipt(name: str) -> dict[str, object]:
    """The JSON object in a file.

    Raises: BadFile.
    """
    try:
        raw = read_bytes(Path(name), name, MAX_JSON_BYTES)
        return parse_json_object(decoded(raw, name), name)
    except BadFile as error:
        said = error.problem
        raise BadFile(
            said.what, cause=said.cause, hint="--calibration wants a receipt: kvplan verify MODEL -o receipt.json"
        ) from None
