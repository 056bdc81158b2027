"""The contract of every user-defined function that Spark's workers call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from rs_assets.errors import TopologyError

# The exceptions that such a function may raise; an interrupt is not its fault.
RAISED = (Exception, SystemExit)


def check_sendable(call: Any, told: str, **facts: str) -> None:
    """TopologyError, with `facts`, if `call` cannot be sent to Spark's workers; `told` names the function."""
    from pyspark import cloudpickle

    try:
        cloudpickle.dumps(call)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise TopologyError(
            f"the function {told} cannot be sent to Spark's workers: {error}",
            remedy="create locks, connections and open files inside the function, not outside",
            **facts,
        ) from error


def remedy_for(error: BaseException, fields: Sequence[str] = ()) -> str:
    """The remedy for an error of a function that got a record with `fields`.

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
    """The message of an error; empty if `str` raises."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  an error of the user's own class
        return ""
