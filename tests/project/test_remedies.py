"""Each remedy has a row that names the test that follows it to the letter, or says why none does."""

import re

from tests.project.remedies import REASONS, ROOT, remedies, table

# How many remedies no test follows yet; a new one needs a test, and each test lowers the number.
OPEN = 0


def test_every_remedy_of_the_code_has_a_row():
    """`python -m tests.project.remedies` adds those that are missing, as open, and takes out those that are gone."""
    printed, known = set(remedies()), table()
    assert sorted(printed - known.keys()) == []
    assert sorted(known.keys() - printed) == []


def test_a_row_names_a_test_that_is_there_or_a_reason():
    followed = table().values()
    for name in {name for name in followed if name not in REASONS}:
        file, _, test = name.partition("::")
        assert re.search(rf"^def {test}\(", (ROOT / "tests" / file).read_text(), re.MULTILINE), name


def test_no_more_remedies_than_before_wait_for_a_test():
    assert sum(name == "open" for name in table().values()) <= OPEN
