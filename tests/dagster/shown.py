"""What Dagster shows of the checks of an instance."""

import asyncio

from dagster._core.loader import LoadingContextForTest


def verdicts_in(instance, keys):
    """What Dagster shows of each check, from the newest record of it."""
    found = instance.event_log_storage.get_asset_check_summary_records(keys)
    return {key.name: known.last_check_execution_record.status.value for key, known in found.items()}


def outdated_in(instance, keys):
    """The checks that Dagster shows as not evaluated, since their result is not of the newest event of the asset."""
    found = instance.event_log_storage.get_asset_check_summary_records(keys)
    records = [known.last_check_execution_record for known in found.values()]
    shown = [asyncio.run(each.targets_latest_materialization(LoadingContextForTest(instance))) for each in records]
    return [each.key.name for each, new in zip(records, shown, strict=True) if not new]
