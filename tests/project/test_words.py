"""Plain English: words that were replaced do not come back."""

from tests.project.words import ROOT, files, found


def test_words_that_were_replaced_do_not_come_back():
    seen = {str(file.relative_to(ROOT)): [*found(file)] for file in files()}
    assert {file: words for file, words in seen.items() if words} == {}
