"""What is sent to Python workers with the functions of users: a worker imports their modules from their files.

Those may have changed since this process has imported them, and a worker that served an earlier function has them as
they were then.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from rs_assets.common.errors_wire import wired
from rs_assets.common.loaded import digests_of, note_modules, renew
from rs_assets.errors import EngineError

What = TypeVar("What")


def sent(what: What, *functions: object) -> What:
    """`what`, which calls `functions`, as it is pickled for workers: in each it is as it was.

    There EngineError for functions that have other code than here, as their files were changed since.
    """
    return cast("What", Sent(what, functions))


@dataclass(frozen=True, slots=True)
class Sent:
    """Something on its way."""

    what: Any
    functions: tuple[object, ...]

    @property
    def __name__(self) -> str:
        """That of its class, as Spark's plans show it."""
        return type(self.what).__name__

    def __call__(self, *given: Any) -> Any:
        """Call it here."""
        return self.what(*given)

    def __reduce__(self) -> tuple[Any, ...]:
        """As a call that checks the modules of the worker."""
        from pyspark import cloudpickle

        content = cloudpickle.dumps((self.what, self.functions))  # type: ignore[no-untyped-call]
        return received, (content, note_modules(), _code(self.functions))


def received(content: bytes, modules: Mapping[str, str], code: str) -> Any:
    """What was sent, with the modules of the process that sent it."""
    renew(modules)
    try:
        what, functions = pickle.loads(content)  # noqa: S301  the driver pickled it
    except ModuleNotFoundError as error:
        with wired():
            raise EngineError(
                f"a Python worker cannot import the module {error.name!r}, which this process has imported",
                remedy="add its folder to the environment variable PYTHONPATH before the process starts, or install it",
            ) from error
    here = digests_of(modules)
    changed = [name for name, digest in here.items() if digest != modules[name]]
    # Other functions of the file, or its comments, may have changed.
    if changed and _code(functions) != code:
        with wired():
            raise EngineError(
                f"a Python worker has imported other code than this process: {', '.join(changed)} changed since",
                remedy="start the process again, which takes the code as it is now; or put the former files back",
            )
    return what


def _code(functions: tuple[object, ...]) -> str:
    from rs_assets.topology.user_code.code import digest_of
    from rs_assets.topology.user_code.settings import settings_text

    return digest_of(settings_text(functions))
