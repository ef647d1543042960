"""The command `kvplan compare`."""

from __future__ import annotations

from kvplan.cli import asked
from kvplan.cli import options as o
from kvplan.cli.command import MODULES, Answer, Command
from kvplan.cli.option import Argument, Values


def run(values: Values) -> Answer:
    """Compare models, formats or kinds of attention."""
    from kvplan import api

    report = api.compare(
        [asked.model(name, values) for name in values.arguments],
        context=values.get(o.CTX_ONE),
        kv_dtypes=values.get(o.KV_DTYPES) or (),
        attentions=values.get(o.ATTENTION) or (),
        parallel=asked.parallel(values),
    )
    return Answer(report)


COMMAND = Command(
    name="compare",
    about=MODULES["compare"],
    run=run,
    examples=(
        "kvplan compare llama-3-8b deepseek-v3 gemma-3-27b --ctx 128k",
        "kvplan compare llama-3-70b --kv-dtype bf16,fp8,q8_0:q4_0",
        "kvplan compare deepseek-v3 --attention mha,gqa,mqa,mla",
    ),
    arguments=(Argument("MODEL", "bundled names, Hub ids, paths", least=1, most=None, completes="models"),),
    options=(o.CTX_ONE, o.KV_DTYPES, o.ATTENTION, *o.PARALLEL, *o.FROM_HUB, *o.PRINTING),
    more="Without --ctx all are compared at the shortest of the maxima that they state.",
)
