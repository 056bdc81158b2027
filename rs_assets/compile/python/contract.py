"""What holds for every function of a user that Spark's workers call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from rs_assets.errors import TopologyError

# What such a function may end with; an interrupt is no fault of it.
RAISED = (Exception, SystemExit)


def check_sendable(call: Any, told: str, **facts: str) -> None:
    """TopologyError, with `facts`, if `call` cannot be sent to Spark's workers; `told` says which function it is."""
    from pyspark import cloudpickle

    try:
        cloudpickle.dumps(call)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise TopologyError(
            f"the function {told} cannot be sent to Spark's workers: {error}",
            remedy="make locks, connections and open files inside the function, not outside",
            **facts,
        ) from error


def remedy_for(error: BaseException, fields: Sequence[str] = ()) -> str:
    """What to do about an error of a function that was given a record with `fields`.

    >>> remedy_for(KeyError("amont"), ["order_id", "amount"])
    "did you mean 'amount'? the record has: order_id, amount"
    >>> remedy_for(KeyError("size"), ["order_id", "amount"])
    'mend the function; the record has: order_id, amount'
    >>> remedy_for(AttributeError("no attribute", name="amount", obj={}), ["order_id", "amount"])
    "a record is a dict: write row['amount']"
    >>> remedy_for(ValueError())
    'mend the function, or filter such records out before it'
    """
    if isinstance(error, AttributeError) and isinstance(error.obj, Mapping) and error.name in fields:
        return f"a record is a dict: write row[{error.name!r}]"
    missed = error.args[0] if isinstance(error, KeyError) and error.args else None
    if isinstance(missed, str) and fields and missed not in fields:
        near = get_close_matches(missed, fields, n=1)
        advice = f"did you mean {near[0]!r}?" if near else "mend the function;"
        return f"{advice} the record has: {', '.join(fields)}"
    return "mend the function, or filter such records out before it"


def text_of(error: BaseException) -> str:
    """What an error says; empty if that raises itself."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  an error of the user's own class
        return ""
