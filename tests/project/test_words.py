"""Plain English: words that were swept out do not come back."""

from tests.project.words import ROOT, files, found

# Files that were not swept yet; the list only gets shorter.
OPEN = ROOT / "tests" / "project" / "words_open.txt"


def test_words_that_were_replaced_do_not_come_back():
    opened = set(OPEN.read_text().split())
    seen = {str(file.relative_to(ROOT)): [*found(file)] for file in files()}
    assert {file: words for file, words in seen.items() if words and file not in opened} == {}


def test_files_that_are_swept_leave_the_list():
    opened = OPEN.read_text().split()
    assert opened == sorted(opened)
    assert [file for file in opened if not (ROOT / file).is_file() or not [*found(ROOT / file)]] == []
