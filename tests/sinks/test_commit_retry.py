"""Commits of Delta that are tried again."""

import pytest
from deltalake.exceptions import CommitFailedError

from rs_assets.connectors.delta.log import retry
from rs_assets.connectors.delta.log.retry import retried


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "WAITS_S", (0.0,) * 5)


class Commits:
    """Attempts that fail with `error` the first `lost` times."""

    def __init__(self, lost: int, error: Exception) -> None:
        self.lost, self.error, self.calls = lost, error, 0

    def __call__(self) -> int:
        self.calls += 1
        if self.calls <= self.lost:
            raise self.error
        return self.calls


@pytest.mark.parametrize("lost", [0, 1, 5])
def test_retried_after_lost_commits_returns_what_the_first_kept_one_does(lost: int) -> None:
    assert retried(Commits(lost, CommitFailedError("first"))) == lost + 1


def test_retried_with_six_lost_commits_raises_the_last() -> None:
    commits = Commits(6, CommitFailedError("first"))
    with pytest.raises(CommitFailedError):
        retried(commits)
    assert commits.calls == 6


def test_retried_with_another_error_raises_it_at_once() -> None:
    commits = Commits(1, OSError("disk"))
    with pytest.raises(OSError, match="disk"):
        retried(commits)
    assert commits.calls == 1


def test_retried_with_errors_that_mean_a_rival_goes_on() -> None:
    assert retried(Commits(2, OSError("there already")), lambda error: isinstance(error, OSError)) == 3
