"""Policies: for records that cannot be used, and for rows that do not meet an expectation."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from rs_assets.errors import TopologyError


class BadRecords(StrEnum):
    """The policy for records that do not parse or have no usable event time.

    FAIL ends the run with BadRecordError before the batch is committed. DEAD_LETTER writes the record with its position
    and reason to the dead-letter table. QUARANTINE also does so for records on which a step fails, in Python or in SQL,
    so that one poison record does not stop a stream for ever. SKIP only counts it.

    >>> BadRecords.of("dead_letter")
    <BadRecords.DEAD_LETTER: 'dead_letter'>
    """

    FAIL = "fail"
    DEAD_LETTER = "dead_letter"
    QUARANTINE = "quarantine"
    SKIP = "skip"

    @property
    def keeps_dead_letters(self) -> bool:
        """Whether records that cannot be used go to the dead-letter table."""
        return self in (BadRecords.DEAD_LETTER, BadRecords.QUARANTINE)

    @classmethod
    def strictest(cls, policies: Collection[BadRecords]) -> BadRecords:
        """The strictest of `policies`, which must not be empty: the members are declared from the strictest on.

        >>> BadRecords.strictest({BadRecords.SKIP, BadRecords.QUARANTINE})
        <BadRecords.QUARANTINE: 'quarantine'>
        """
        return next(policy for policy in cls if policy in policies)

    @classmethod
    def of(cls, value: object) -> BadRecords:
        """The policy named by `value`, in any case; TopologyError for an unknown name."""
        for policy in cls:
            if isinstance(value, str) and value.lower() == policy.value:
                return policy
        raise TopologyError(
            f"{value!r} is not a policy for bad records", remedy="use 'fail', 'dead_letter', 'quarantine' or 'skip'"
        )


class OnFail(StrEnum):
    """The policy for rows that do not meet an expectation; all of them are counted.

    WARN passes them on. SKIP leaves them out. DEAD_LETTER leaves them out, and writes each to the dead-letter table.
    FAIL ends the run with BadRecordError before the batch is committed.

    >>> OnFail.of("warn")
    <OnFail.WARN: 'warn'>
    """

    WARN = "warn"
    SKIP = "skip"
    DEAD_LETTER = "dead_letter"
    FAIL = "fail"

    @property
    def removes(self) -> bool:
        """Whether rows are left out."""
        return self in (OnFail.SKIP, OnFail.DEAD_LETTER)

    @classmethod
    def of(cls, value: object) -> OnFail:
        """The policy named by `value`, in any case; TopologyError for an unknown name."""
        for policy in cls:
            if isinstance(value, str) and value.lower() == policy.value:
                return policy
        raise TopologyError(
            f"on_fail={value!r} is not a policy for rows that do not meet an expectation",
            remedy="use 'warn', 'skip', 'dead_letter' or 'fail'",
        )
