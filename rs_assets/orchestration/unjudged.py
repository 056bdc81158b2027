"""Checks of a run that was refused, or found nothing to do: they stay as they were, for nothing was judged."""

from __future__ import annotations

from dagster import OpExecutionContext
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage


def leave_checks_alone(context: OpExecutionContext) -> None:
    """Take back that this run would judge anything; a check that it makes all the same counts as ever.

    Dagster writes that down when it makes a run, and shows checks as failed or skipped, in the place of what is known,
    if the run fails or passes over them. Whatever prevents it stands in the log of the run: why that was refused is
    more important.
    """
    storage = context.instance.event_log_storage
    if not isinstance(storage, SqlEventLogStorage):
        return
    planned = AssetCheckExecutionRecordStatus.PLANNED.value
    table = AssetCheckExecutionsTable
    try:
        with storage.index_connection() as connection:
            mine = table.c.run_id == context.run_id
            connection.execute(table.delete().where(mine, table.c.execution_status == planned))
    except Exception as error:  # noqa: BLE001  a store of somebody else's may raise anything
        context.log.warning("the checks that this run has not made are shown as failed or skipped: %s", error)
