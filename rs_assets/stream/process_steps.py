"""Python functions with state over the rows of a stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from rs_assets.common.names import one_or_more
from rs_assets.errors import SchemaError
from rs_assets.records.schema import Schema, schema_text
from rs_assets.topology.nodes.process import BUCKETS, TIMEOUT, Process
from rs_assets.topology.nodes.timed import NONE
from rs_assets.topology.user_code.expression import PythonFunction
from rs_assets.topology.user_code.processor import Processor

if TYPE_CHECKING:
    from rs_assets.common.node import Node
    from rs_assets.stream.draft import Draft
    from rs_assets.stream.processed_stream import ProcessedStream

Names = str | Sequence[str]


class ProcessSteps:
    """The steps of a stream that keep state for Python functions; part of `DataStream`."""

    __slots__ = ()

    draft: Draft
    step: str

    def process_values(
        self,
        function: Callable[[dict[str, Any], dict[str, Any] | None, list[dict[str, Any]]], Any],
        *,
        keys: Names,
        state: Schema,
        schema: Schema,
        order_by: Names = (),
        buckets: int = BUCKETS,
        timeout: timedelta = TIMEOUT,
        name: str = "processor",
    ) -> Self:
        """Call `function(key, state, rows)` for each key of a batch; it returns the new state and a list of records.

        Typical uses: running values, changes of a status, rules that look at earlier rows. See docs/processors.md.

        - `function`: gets the key as a dict, the state as a dict (None: none yet), and the rows of the batch as dicts.
          The state that it returns replaces the old one; None removes it. An empty list or None gives no records. It
          must be deterministic, because a batch may be computed again.
        - `keys` (str or sequence of str): the fields whose values have a state of their own. Null is a value.
        - `state`, `schema` (schemas): the fields of a state, and of the records. All must be there; None is null.
        - `order_by` (str or sequence of str, default: the order of reading): the order of the rows of a key in a batch.
          Files that are read whole, Delta tables and stateful steps have no order of reading: there the order is that
          of the fields.
        - `buckets` (int, default 64): how many parts the keys are spread over. It cannot be changed later.
        - `timeout` (timedelta, default 5 minutes): a worker that does not answer for so long is ended, and so is the
          run. It gets up to 10,000 rows at once, or all rows of a key.
        - `name` (str, default "processor"): the state is stored under it.

        >>> from rs_assets import StreamBuilder
        >>> clicks = [{"user": "ann", "page": "/"}, {"user": "bo", "page": "/"}, {"user": "ann", "page": "/cart"}]
        >>> clicks = StreamBuilder.data_stream("shop", "seen").from_array(clicks)
        >>> def count(key, state, rows):
        ...     n = (state["n"] if state else 0) + len(rows)
        ...     return {"n": n}, [{"user": key["user"], "n": n, "last": rows[-1]["page"]}]
        >>> seen = clicks.process_values(
        ...     count, keys="user", state="n bigint", schema="user string, n bigint, last string"
        ... )
        >>> sorted(seen.preview(), key=lambda row: row["user"])
        [{'user': 'ann', 'n': 2, 'last': '/cart'}, {'user': 'bo', 'n': 1, 'last': '/'}]
        """
        node = Process(
            name=name,
            inputs=(self.step,),
            function=_function(function, schema, step=name),
            form="key",
            keys=one_or_more(keys),
            state=needed_schema(state, "state", step=name),
            order_by=one_or_more(order_by),
            buckets=buckets,
            timeout=timeout,
        )
        return self._then(node)

    def process_batch(
        self,
        function: Callable[..., Any],
        *,
        keys: Names,
        state: Schema,
        schema: Schema,
        order_by: Names = (),
        buckets: int = BUCKETS,
        timeout: timedelta = TIMEOUT,
        name: str = "processor",
    ) -> Self:
        """Call `function(state, rows)` with Arrow tables of many keys; it returns two tables, new states and records.

        Typical uses: what `process_values` does, several times as fast, with pyarrow, numpy or polars.

        - `function`: gets the states that the keys of `rows` have, as a `pyarrow.Table` of the fields of key and state,
          and the rows, those of a key together and in order. Each table that it returns has exactly the fields of its
          schema, in any order, the states also those of the key. A key that is not among the states has none then. A
          call gets whole keys; which keys come together is not defined.
        - `keys`, `state`, `schema`, `order_by`, `buckets`, `timeout`, `name`: as for `process_values`, whose state is
          of the same form: a step may change from one to the other.

        >>> import pyarrow as pa
        >>> from rs_assets import StreamBuilder
        >>> rows = [{"user": "ann", "ms": 5}, {"user": "bo", "ms": 7}, {"user": "ann", "ms": 1}]
        >>> clicks = StreamBuilder.data_stream("shop", "sums").from_array(rows)
        >>> def total(state, rows):
        ...     both = pa.concat_tables([state, rows.select(["user", "ms"])])
        ...     sums = both.group_by("user").aggregate([("ms", "sum")]).rename_columns({"ms_sum": "ms"})
        ...     return sums, sums
        >>> sums = clicks.process_batch(total, keys="user", state="ms bigint", schema="user string, ms bigint")
        >>> sorted(sums.preview(), key=lambda row: row["user"])
        [{'user': 'ann', 'ms': 6}, {'user': 'bo', 'ms': 7}]
        """
        node = Process(
            name=name,
            inputs=(self.step,),
            function=_function(function, schema, step=name),
            form="batch",
            keys=one_or_more(keys),
            state=needed_schema(state, "state", step=name),
            order_by=one_or_more(order_by),
            buckets=buckets,
            timeout=timeout,
        )
        return self._then(node)

    def process(
        self,
        processor: type[Processor] | Processor,
        *,
        keys: Names,
        schema: Schema,
        outputs: Mapping[str, Schema] | None = None,
        time_field: str | None = None,
        water_mark: timedelta = NONE,
        tick: timedelta | None = None,
        order_by: Names = (),
        buckets: int = BUCKETS,
        timeout: timedelta = TIMEOUT,
        name: str = "processor",
    ) -> ProcessedStream:
        """Hand each row to a processor: a class with stores and timers for each key, and several outputs.

        Typical uses: rules over several events, sessions of your own, alarms when nothing comes. See
        docs/processors.md.

        - `processor` (subclass of `rs_assets.Processor`, or an object of one): its stores are class attributes. A
          worker makes its own object of a class, or gets a copy of an object.
        - `keys`, `order_by`, `buckets`, `timeout`, `name`: as for `process_values`.
        - `schema` (schema): the fields of the records that it passes on.
        - `outputs` (dict of schemas by name, default none): other kinds of records, `context.forward(record, to=name)`.
          `.output(name)` of the result is the stream of one.
        - `time_field` (str, default none): the field of the event time. Rows of a key come by it in a batch, no row is
          late, and timers fire when the watermark has reached them.
        - `water_mark` (timedelta, default 0): how far the watermark lags the greatest event time.
        - `tick` (timedelta, default none): go by the clock instead, which advances at least that often. Timers fire by
          it.

        >>> from rs_assets import MapStore, Processor, StreamBuilder
        >>> class Cart(Processor):
        ...     items = MapStore("sku string", "n int")
        ...
        ...     def process(self, key, row, context):
        ...         n = (context.items.get(row["sku"]) or {"n": 0})["n"] + 1
        ...         context.items.put(row["sku"], {"n": n})
        ...         if n == 2:
        ...             context.forward({"sku": row["sku"]}, to="twice")
        ...         context.forward({"user": key["user"], "different": len(context.items)})
        >>> rows = [{"user": "ann", "sku": "pen"}, {"user": "ann", "sku": "cup"}, {"user": "ann", "sku": "pen"}]
        >>> clicks = StreamBuilder.data_stream("shop", "carts").from_array(rows)
        >>> carts = clicks.process(
        ...     Cart, keys="user", schema="user string, different int", outputs={"twice": "sku string"}
        ... )
        >>> [row["different"] for row in carts.preview()], carts.output("twice").preview()
        ([1, 2, 2], [{'sku': 'pen'}])
        """
        from rs_assets.stream.processed_stream import ProcessedStream, state_of

        made = tuple(
            (
                each,
                needed_schema(kind, f"schema of output {each!r}", given=f"outputs={{{each!r}: 'n bigint'}}", step=name),
            )
            for each, kind in (outputs or {}).items()
        )
        node = Process(
            name=name,
            inputs=(self.step,),
            function=_function(processor, schema, step=name),
            form="processor",
            keys=one_or_more(keys),
            state=state_of(processor, step=name, timed=time_field is not None or tick is not None),
            order_by=one_or_more(order_by),
            buckets=buckets,
            timeout=timeout,
            time_field=time_field,
            water_mark=water_mark,
            tick=tick,
            outputs=made,
        )
        return ProcessedStream.of(self.draft, node)

    def _then(self, node: Node) -> Self:
        raise NotImplementedError


def _function(call: Any, schema: Schema, *, step: str) -> PythonFunction:
    return PythonFunction(call, needed_schema(schema, "schema", step=step), trace=False)


def needed_schema(schema: Schema, what: str, *, step: str, given: str | None = None) -> str:
    """A schema as DDL; SchemaError if there is none, with how it is `given` (default: as the argument `what`)."""
    text = schema_text(schema, step=step)
    if text is None:
        argument = given or f"{what}='n bigint'"
        raise SchemaError(f"step {step!r} has no {what}", remedy=f"name its fields: {argument}", step=step)
    return text
