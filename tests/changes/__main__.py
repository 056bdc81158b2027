"""A campaign over the changes of a database; FAULTS.md says what it is.

python -m tests.changes postgres --seed 1 --transactions 100000 --kills 20
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.changes.campaign import Campaign, planned
from tests.changes.databases import DATABASES
from tests.faults.processes import QUICK_START


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.changes", description=__doc__)
    parser.add_argument("kind", choices=tuple(DATABASES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--transactions", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--folder", type=Path, help="an empty folder that stays; else a temporary one")
    how = parser.parse_args()
    os.environ.setdefault("JAVA_TOOL_OPTIONS", QUICK_START)
    with tempfile.TemporaryDirectory(prefix="changes-") as temporary:
        folder = (how.folder or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        campaign = Campaign(DATABASES[how.kind](), folder, say=lambda line: print(line, flush=True))
        result = campaign.done(how.seed, how.transactions, planned(how.seed, how.kills))
    print(f"{how.kind}, seed {how.seed}: {result}", flush=True)
    sys.exit(1 if result.faults else 0)


if __name__ == "__main__":
    main()
