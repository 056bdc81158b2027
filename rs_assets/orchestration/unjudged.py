"""Checks of a run that was refused: they stay as they were, for the run has neither done nor judged anything."""

from __future__ import annotations

from dagster import OpExecutionContext
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage


def leave_checks_alone(context: OpExecutionContext) -> None:
    """Take back that this run would judge anything.

    Dagster writes that down when it makes a run, and shows the checks of a run that failed as failed, in the place of
    what is known. Whatever prevents it stands in the log of the run: why that was refused is more important.
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
        context.log.warning("the checks of this run are shown as failed, though it was only refused: %s", error)
