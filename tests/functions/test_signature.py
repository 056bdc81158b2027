"""Types of user-defined functions from annotations of which some cannot be resolved."""

from __future__ import annotations

import pytest

from rs_assets.errors import SchemaError
from rs_assets.udf.signature import hints_of, returned_by, taken_by


def length(text: str, times: Unknown = 1) -> int:  # noqa: F821  that is the case
    return len(text) * times


def made(text: Unknown) -> str:  # noqa: F821  that is the case
    return text


def test_an_annotation_that_cannot_be_resolved_leaves_the_others():
    """One of them took all others away, so that the error named another parameter."""
    assert hints_of(length) == {"text": str, "return": int}
    assert returned_by(length, None, name="length") == ("bigint", True)
    assert taken_by(made, "text string", name="made").types == ("string",)
    assert returned_by(made, None, name="made") == ("string", True)


def test_the_error_names_the_parameter_and_the_annotation():
    with pytest.raises(
        SchemaError, match="parameter 'times' .* has no type: the annotation 'Unknown' cannot be resolved"
    ):
        taken_by(length, None, name="length")
