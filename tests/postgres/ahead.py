"""A process that plans a batch and then stands still while the part after it lands, until it is killed.

    python -m tests.postgres.ahead URL FOLDER MOMENT

It writes its offsets after the snapshot, and waits for a line. Then it writes the end of a batch, and `there` when it
has come to the moment: before the next part is seen, after that and before the server may forget it, or after both.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from rs_assets.connectors.changes.landed import LandingPart
from rs_assets.connectors.own.ahead import Ahead
from rs_assets.connectors.own.plan import dumped
from rs_assets.connectors.postgres.slot import Slot
from tests.postgres.plain import Source

# Where the thread stands still; with none it ends.
MOMENTS = {"landing": (LandingPart, "publish"), "landed": (Slot, "advance"), "done": None}


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def stand_still(*_args: object, **_more: object) -> None:
    say("there")
    threading.Event().wait()


def main(url: str, folder: str, moment: str) -> None:
    source = Source(url, Path(folder), rows=10)
    source.read()
    say(json.dumps(dumped(source.offsets)))
    sys.stdin.readline()
    plan, begin, place = source.plan(), Ahead.begin, MOMENTS[moment]

    def begun(ahead: Ahead, work: Callable[[], object]) -> None:
        if place is not None:
            patch.object(*place, stand_still).start()
        begin(ahead, work)

    with patch.object(Ahead, "begin", begun):
        end = plan.next(source.offsets, 10)
    say(json.dumps(dumped(end)))
    if place is None:
        plan._ahead.wait()
        stand_still()
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
