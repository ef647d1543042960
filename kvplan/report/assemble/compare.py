"""The document of a comparison."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.arch.parallel import Parallel
from kvplan.plan.compare import Row
from kvplan.report.assemble.common import kv_dtype, layout
from kvplan.report.schema import compare as schema
from kvplan.report.schema import schema_id


def compare_report(rows: Sequence[Row], parallel: Parallel, chosen: str | None = None) -> schema.CompareReport:
    """The document of a comparison, with ratios to the first row. chosen: the origin of a default length."""
    said = () if chosen is None else (f"Assumed: {chosen}.",)
    first = rows[0].bytes
    return schema.CompareReport(
        schema=schema_id("compare"),
        parallel=layout(parallel),
        rows=tuple(
            schema.Compared(
                model=row.model.origin.id,
                attention=row.attention,
                kv_dtype=kv_dtype(row.kv),
                tokens=row.tokens,
                bytes_per_token=row.bytes_per_token,
                bytes_per_token_full=row.bytes_per_token_full,
                fixed_bytes_per_sequence=row.fixed,
                bytes=row.bytes,
                bytes_per_gpu=row.on_gpu,
                ratio=row.bytes / first if first else 0.0,
                notes=row.notes + said,
            )
            for row in rows
        ),
    )
