"""The records of a processor, and those of its named outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rs_assets.common.names import checked_name
from rs_assets.errors import TopologyError
from rs_assets.stream.data_stream import DataStream
from rs_assets.stream.draft import Draft
from rs_assets.topology.nodes.process import MAIN, Process, ProcessOutput
from rs_assets.topology.user_code.processor import TIMERS, TIMERS_TYPE, Processor, taken_name
from rs_assets.topology.user_code.stores import stores_of

# The end of the name of the step with the records that were passed on to no output.
NO_OUTPUT = "main"


@dataclass(frozen=True, slots=True)
class ProcessedStream(DataStream):
    """The records that a processor passes on without naming an output; `output` gives those of each other kind."""

    processor: str
    outputs: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, draft: Draft, node: Process) -> ProcessedStream:
        """The result of a processor's step."""
        for output, _ in node.outputs:
            checked_name(output, what="output")
            if output == NO_OUTPUT:
                raise TopologyError(
                    f"an output of step {node.name!r} is called {output!r}, as are the records without an output",
                    remedy="give it another name",
                    step=node.name,
                )
        step = draft.add(node)
        if node.outputs:
            schema = node.function.schema or ""
            rest = ProcessOutput(name=f"{node.name}_{NO_OUTPUT}", inputs=(step,), output=MAIN, schema=schema)
            return cls(draft, draft.add(rest), step, node.outputs)
        return cls(draft, step, step, ())

    def output(self, name: str) -> DataStream:
        """The records that were passed on to an output: `context.forward(record, to=name)`.

        - `name` (str): one of `outputs`.
        """
        schema = dict(self.outputs).get(name)
        if schema is None:
            raise TopologyError(
                f"step {str(self.processor)!r} has no output {name!r}",
                remedy=f"declare it: outputs={{{name!r}: 'n bigint'}}",
                step=str(self.processor),
            )
        node = ProcessOutput(name=f"{self.processor}_{name}", inputs=(self.processor,), output=name, schema=schema)
        return DataStream(self.draft, self.draft.add(node))


def state_of(processor: Any, *, step: str, timed: bool) -> str:
    """The schema of the state of a processor; TopologyError for what is none, or cannot work."""
    kind = processor if isinstance(processor, type) else type(processor)
    if not issubclass(kind, Processor) or kind.process is Processor.process:
        raise TopologyError(
            f"step {step!r} needs a subclass of rs_assets.Processor with a method process: {processor!r}",
            remedy="class Mine(Processor): ..., then .process(Mine, ...); or .process_values(function, ...)",
            step=step,
        )
    stores = stores_of(processor)
    taken = taken_name(stores)
    if taken is not None:
        raise TopologyError(
            f"a store of step {step!r} is called {taken!r}, which the context has for something else",
            remedy="give the store another name",
            step=step,
        )
    if not stores and not timed:
        raise TopologyError(
            f"the processor of step {step!r} has neither stores nor timers",
            remedy="declare a store, such as last = ValueStore('n bigint'), or use .flat_map(function, schema=...)",
            step=step,
        )
    columns = [f"`{name}` {store.column(step)}" for name, store in stores.items()]
    return ", ".join([*columns, f"{TIMERS} {TIMERS_TYPE}"])
