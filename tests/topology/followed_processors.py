"""Remedies of Python functions with state."""

from __future__ import annotations

from tests.topology.followed_programs import Case, hits

NODE = "topology/nodes/process.py::Process.__post_init__"
HOW = {"keys": "user", "state": "n bigint", "schema": "user string, n bigint"}


def count(key, state, rows):
    return {"n": len(rows)}, []


def counted(**how):
    stream = hits(schema="user string, ms bigint", tail=True)
    return stream.process_values(count, **{**HOW, **how}).to_print().build()


CASES = [
    Case(
        NODE,
        lambda: counted(keys=[]),
        "name the fields that have a state of their own: keys='user'",
        lambda: counted(keys="user"),
    ),
    Case(NODE, lambda: counted(buckets=0), "leave buckets= out", counted),
    Case(
        "stream/process_steps.py::_text",
        lambda: counted(state=None),
        "state='n bigint'",
        lambda: counted(state="n bigint"),
    ),
    Case(
        "topology/check/rules.py::_processed",
        lambda: counted(state="user string, n bigint"),
        "leave it out of state=: a state is kept with its key",
        lambda: counted(state="n bigint"),
    ),
]
