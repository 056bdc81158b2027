"""An executor that treats an interrupt at a terminal as a requested stop, at any point of the run."""

from __future__ import annotations

from collections.abc import Iterator

from dagster import DagsterEvent, DagsterExecutionInterruptedError, Executor, ExecutorDefinition, InitExecutorContext
from dagster._core.execution.context.system import PlanOrchestrationContext
from dagster._core.execution.plan.plan import ExecutionPlan
from dagster._core.execution.retries import RetryMode

from rs_assets.common.interrupts import held_back
from rs_assets.dagster.runs.outcome import note_stop


def stoppable(executor: ExecutorDefinition) -> ExecutorDefinition:
    """`executor`, which records a requested stop before Dagster handles an interrupt.

    Steps record the interrupts that they see; Dagster raises others between two steps.
    """

    def made(context: InitExecutorContext) -> Executor:
        create = executor.executor_creation_fn
        assert create is not None  # every executor has one
        return _Stoppable(create(context))

    return ExecutorDefinition(
        name=executor.name,
        config_schema=executor.config_schema,  # type: ignore[arg-type]
        requirements=executor._requirements_fn,  # noqa: SLF001  there is no public way to read them
        executor_creation_fn=made,
        description=executor.description,
    )


class _Stoppable(Executor):
    def __init__(self, inner: Executor) -> None:
        self._inner = inner

    @property
    def retries(self) -> RetryMode:
        """Those of the inner executor."""
        return self._inner.retries

    def execute(self, plan_context: PlanOrchestrationContext, execution_plan: ExecutionPlan) -> Iterator[DagsterEvent]:
        """Execute, and record the stop if an interrupt ends it."""
        try:
            yield from self._inner.execute(plan_context, execution_plan)
        except (KeyboardInterrupt, DagsterExecutionInterruptedError):
            with held_back():
                note_stop(plan_context.instance, plan_context.run_id)
            raise
