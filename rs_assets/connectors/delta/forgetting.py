"""Removes the rows of some keys from a Delta table: from its newest version, other files in its folder, and its log.

Files with such rows are written again without them, in a commit that a stream which reads the table does not see: it
changes no other row. Afterwards the log goes up to the last entry that may name a value of such a row, as the least or
greatest one of a file, and then the files that earlier versions name, if they have such rows.
"""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs

from rs_assets.common.storage import is_remote
from rs_assets.connectors.delta.backfill import partition_values, removal
from rs_assets.connectors.delta.files.staging import STAGING, is_staged_by
from rs_assets.connectors.delta.files.statistics import file_statistics
from rs_assets.connectors.delta.log.causes import causes_of
from rs_assets.connectors.delta.log.commit_info import FORGOTTEN, FORGOTTEN_BATCH, claim_carried_on
from rs_assets.connectors.delta.log.retry import retried
from rs_assets.connectors.delta.log.sole_writer import ALONE, SoleWriterCheck
from rs_assets.connectors.delta.log.store import delta_table, files_of, log_bytes, log_names
from rs_assets.connectors.delta.log.versions import ENTRY
from rs_assets.connectors.delta.table import open_table
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import SinkError

LOG = "_delta_log"
# Files of the log that name the files of a version: checkpoints, joined entries, sums of Spark's connector.
CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\b.*\.(parquet|json)")
SUMS = re.compile(r"\.?(\d{20})\.(?:json\.)?crc|(\d{20})\.\d{20}\.compacted\.json")
# Features by which rows are not simply those of the files that the log names.
FEATURES = ("deletionVectors", "v2Checkpoint")
EXTREMES = ("minValues", "maxValues")
# Files of rows: whole ones, and what a killed write has left of one. delta-rs writes `...parquet#1` and renames it.
ROWS = re.compile(r".*\.parquet(?:#\d+|\.[0-9a-f]+\.forgetting)?")
# Into a file that is being written something comes more often.
QUIET_S = 3600.0
AGAIN = "forget the keys again"
File = dict[str, Any]
Stats = Mapping[str, Any]


class Matcher(Protocol):
    """Which rows go."""

    def columns(self, schema: pa.Schema) -> Sequence[str]:
        """The columns of a file that decide it; none if no row of a file with these columns goes."""
        ...

    def matches(self, rows: pa.Table) -> pa.ChunkedArray | pa.Array:
        """For each row of a file, of which only these columns are read, whether it goes."""
        ...

    def named(self, values: Stats) -> bool:
        """Whether least or greatest values by column, as the log has them, may be those of a row that goes."""
        ...

    def mentioned(self, text: str) -> bool:
        """Whether a text, as the condition of a deletion in the log, has one of the keys."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The rows in the newest version, those in other files of the table's folder, and the entries of its log.

    `broken` files are those that a killed write has left, or that are being written: their rows cannot be read.
    """

    version: int | None = None
    rows: int = 0
    earlier: int = 0
    entries: int = 0
    broken: int = 0

    @property
    def anything(self) -> bool:
        """Whether there is something to remove."""
        return bool(self.rows or self.earlier or self.entries or self.broken)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableErasure:
    """The rows of some keys in the table at `path`, which may not be there.

    `mark` names the sink, its generation, the last batch and the token of the lease; None for a table of the catalog.
    `pipeline` is who removes them: of an interrupted call its next one removes the files that were not whole yet.
    """

    path: str
    matcher: Matcher
    step: str
    pipeline: str
    mark: BatchMark | None = None

    def check(self) -> None:
        """SinkError for a table whose files cannot be written again one by one."""
        table = open_table(self.path)
        if table is None:
            return
        about, protocol = table.metadata(), table.protocol()
        features = [name for name in FEATURES if name in (protocol.reader_features or ())]
        if features:
            raise self._refused(
                f"the table has {', '.join(features)}, so its files cannot be written again one by one",
                f"let Spark rewrite it: ALTER TABLE ... DROP FEATURE {features[0]}, then {AGAIN}",
            )
        if about.configuration.get("delta.columnMapping.mode", "none") != "none":
            raise self._refused(
                "the table maps its columns to other names in its files (delta.columnMapping.mode)",
                f"delete the rows with Spark and vacuum the table, then {AGAIN}",
            )
        if about.configuration.get("delta.appendOnly") == "true":
            raise self._refused(
                "the table only accepts appends (delta.appendOnly)",
                f"set its property delta.appendOnly to false, then {AGAIN}",
            )
        split = self.matcher.columns(pa.schema([(name, pa.string()) for name in about.partition_columns]))
        if split:
            raise self._refused(
                f"the table is partitioned by {', '.join(split)}, whose values are names of its folders and in its log",
                "write to a new table that is partitioned by another column, and remove this one",
            )

    def found(self) -> Found:
        """What there is now; nothing is changed."""
        table = open_table(self.path)
        if table is None:
            return Found()
        live = _live(table)
        counts, broken = self._scan(live)
        return Found(
            version=table.version(),
            rows=sum(count for name, count in counts.items() if name in live),
            earlier=sum(count for name, count in counts.items() if name not in live),
            entries=len(self._naming(counts, live)),
            broken=len(broken),
        )

    def erase(self) -> None:
        """Remove all of it; may be called again after a crash at any point."""
        if open_table(self.path) is None:
            return
        try:
            self._rewrite()
            live = _live(delta_table(self.path))
            earlier, broken = self._scan(live)
            # As long as the files are there, a repeated call knows which entries are about them.
            self._cut_log(earlier, live)
            self._remove_files(earlier)
            self._remove_broken(broken)
        except CommitFailedError as error:
            raise self._refused("the table was written to each time when its rows were to be removed", AGAIN) from error
        except (DeltaError, pa.ArrowException, OSError) as error:
            raise self._refused(
                f"the rows cannot be removed: {causes_of(error)}",
                f"check the disk and its permissions, then {AGAIN}",
            ) from error

    def _rewrite(self) -> None:
        """Replace the files with such rows, in one commit."""
        made: dict[str, AddAction | None] = {}

        def attempt() -> None:
            table = delta_table(self.path)
            live = _live(table)
            masks = {name: mask for name in live if (mask := self._mask(name)) is not None}
            for name, mask in masks.items():
                if name not in made:
                    made[name] = self._kept(name, mask, partition_values(live[name], table))
            actions: list[AddAction | RemoveAction] = [
                *(removal(live[name], table, data_change=False) for name in masks),
                *(action for name, action in made.items() if name in masks and action is not None),
            ]
            if masks:
                self._commit(table, actions)

        retried(attempt)

    def _commit(self, table: DeltaTable, actions: list[AddAction | RemoveAction]) -> None:
        table.create_write_transaction(
            actions,
            mode="append",
            schema=table.schema(),
            partition_by=table.metadata().partition_columns,
            commit_properties=self._noted(table),
        )

    def _noted(self, table: DeltaTable) -> CommitProperties:
        """The marker of the pipeline, with the token of its lease: a driver that was overtaken commits no more."""
        mark = self.mark
        if mark is None:
            return CommitProperties(custom_metadata={FORGOTTEN: self.step}, max_commit_retries=0)
        check = SoleWriterCheck()
        check.others(table, mark, deep=True)
        facts = check.facts(table.version())
        said = {FORGOTTEN: mark.writer, FORGOTTEN_BATCH: str(mark.batch_id), **claim_carried_on(table, mark)}
        if ALONE in facts:
            said[f"rs.{ALONE}"] = facts[ALONE]
        return CommitProperties(
            app_transactions=[Transaction(mark.fence, max(mark.token, table.transaction_version(mark.fence) or 0))],
            custom_metadata=said,
            max_commit_retries=0,
        )

    def _kept(self, name: str, mask: pa.Array, values: Mapping[str, str | None]) -> AddAction | None:
        """A new file with the other rows of one; None if it has none."""
        files = self._filesystem
        rows = plain(pq.read_table(name, filesystem=files, partitioning=None)).filter(pc.invert(mask))
        if not rows.num_rows:
            return None
        made = f"{uuid.uuid4().hex}.parquet"
        begun = made if is_remote(self.path) else f"{made}{self._begun}"
        pq.write_table(rows, begun, filesystem=files, coerce_timestamps="us")
        if begun != made:
            files.move(begun, made)
        facts = files.get_file_info(made)
        return AddAction(
            path=made,
            size=facts.size,
            partition_values=values,
            modification_time=int(time.time() * 1000),
            data_change=False,
            stats=file_statistics(pq.read_metadata(made, filesystem=files)).text(),
        )

    def _remove_files(self, names: Collection[str]) -> None:
        """Remove those of the files with such rows that the newest version does not name."""
        live = _live(delta_table(self.path))
        for name in (name for name in names if name not in live):
            self._filesystem.delete_file(name)
            self._delete_sum(name)

    @property
    def _begun(self) -> str:
        """How the name of a file ends that is being written."""
        return f".{hashlib.blake2b(self.pipeline.encode(), digest_size=8).hexdigest()}.forgetting"

    def _remove_broken(self, names: Collection[str]) -> None:
        """Remove files that a killed write has left; those that others may be writing stay."""
        files = self._filesystem
        for info in files.get_file_info([*names]):
            if info.path.endswith(self._begun) or time.time() - info.mtime.timestamp() > QUIET_S:
                files.delete_file(info.path)

    def _delete_sum(self, name: str) -> None:
        folder, _, last = name.rpartition("/")
        crc = f"{folder}/.{last}.crc" if folder else f".{last}.crc"
        if self._filesystem.get_file_info(crc).is_file:
            self._filesystem.delete_file(crc)

    def _cut_log(self, having: Collection[str], live: Collection[str]) -> None:
        """Remove the log up to the last entry that names such values; a checkpoint takes its place.

        `having` are the files with such rows, `live` those of the newest version. The removal of keys is what the log
        then begins with: it says which batch the rows are of.
        """
        naming = self._naming(having, live)
        if not naming:
            return
        last = max(naming)
        if not self._begins_after(last):
            self._commit(delta_table(self.path), [])
        table = delta_table(self.path)
        table.create_checkpoint()
        for name in self._log_names():
            entry, whole, sums = ENTRY.fullmatch(name), CHECKPOINT.fullmatch(name), SUMS.fullmatch(name)
            old = (
                (entry is not None and int(entry[1]) <= last)
                or (whole is not None and int(whole[1]) < table.version())
                or (sums is not None and int(sums[1] or sums[2]) < table.version())
            )
            if old:
                self._filesystem.delete_file(f"{LOG}/{name}")

    def _begins_after(self, last: int) -> bool:
        """Whether a removal of keys by this sink comes after the version `last`."""
        author = self.mark.writer if self.mark is not None else self.step
        later = (int(entry[1]) for entry in map(ENTRY.fullmatch, self._log_names()) if entry and int(entry[1]) > last)
        infos = (action.get("commitInfo", {}) for version in later for action in self._actions(version))
        return any(info.get(FORGOTTEN) == author for info in infos)

    def _naming(self, having: Collection[str], live: Collection[str]) -> list[int]:
        """The versions whose entry, or whose checkpoint of the log, names values of such rows."""
        found = []
        # The values of these files are those of rows that stay, as of a row of others with the same text.
        clean = {*live}.difference(having)
        for name in self._log_names():
            entry, whole = ENTRY.fullmatch(name), CHECKPOINT.fullmatch(name)
            if entry is not None and any(self._names(each, having, clean) for each in self._actions(int(entry[1]))):
                found.append(int(entry[1]))
            elif whole is not None and whole[2] == "parquet" and self._checkpoint_names(name, having, clean):
                found.append(int(whole[1]))
        return found

    def _log_names(self) -> list[str]:
        return [name for name in log_names(self.path) if not name.startswith("_")]

    def _actions(self, version: int) -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in log_bytes(self.path, version).splitlines() if line.strip()]

    def _names(self, action: Mapping[str, Any], having: Collection[str], clean: Collection[str]) -> bool:
        condition = (action.get("commitInfo", {}).get("operationParameters") or {}).get("predicate")
        if condition is not None and self.matcher.mentioned(str(condition)):
            return True
        return self._reveals(action.get("add") or action.get("remove") or {}, having, clean)

    def _checkpoint_names(self, name: str, having: Collection[str], clean: Collection[str]) -> bool:
        table = pq.read_table(f"{LOG}/{name}", columns=["add"], filesystem=self._filesystem, partitioning=None)
        return any(self._reveals(add, having, clean) for add in table["add"].to_pylist() if add)

    def _reveals(self, added: Mapping[str, Any], having: Collection[str], clean: Collection[str]) -> bool:
        """Whether least or greatest values of a file are those of a key, or may be other values of such a row."""
        path = unquote(str(added.get("path")))
        if path in clean:
            return False
        made = orjson.loads(added["stats"]) if added.get("stats") else {}
        said = [each.get(which) or {} for each in (made, added.get("stats_parsed") or {}) for which in EXTREMES]
        rows = path in having
        return any((rows and values) or self.matcher.named(values) for values in said)

    def _files(self) -> list[str]:
        """All files of rows in the table's folder, except those that other sinks have staged."""
        found = self._filesystem.get_file_info(fs.FileSelector("", recursive=True, allow_not_found=True))
        names = (info.path for info in found if info.is_file and ROWS.fullmatch(info.path))
        return sorted(name for name in names if not name.startswith(f"{LOG}/") and not self._of_others(name))

    def _scan(self, live: Collection[str]) -> tuple[dict[str, int], list[str]]:
        """The files with such rows, and how many each has; and those that a write has not finished."""
        counts, broken = dict[str, int](), list[str]()
        for name in self._files():
            if name.endswith(self._begun):
                broken.append(name)
                continue
            try:
                counts[name] = self._count(name)
            except pa.ArrowInvalid:
                if name in live:
                    raise
                broken.append(name)
        return {name: count for name, count in counts.items() if count}, broken

    def _of_others(self, name: str) -> bool:
        if not name.startswith(f"{STAGING}/") or is_remote(self.path) or self.mark is None:
            return name.startswith(f"{STAGING}/")
        return not is_staged_by(name, self.mark)

    def _count(self, name: str) -> int:
        mask = self._mask(name)
        return 0 if mask is None else int(pc.sum(mask).as_py())

    def _mask(self, name: str) -> pa.Array | None:
        """For each row of a file whether it goes; None if none does."""
        files = self._filesystem
        columns = self.matcher.columns(pq.read_schema(name, filesystem=files))
        if not columns:
            return None
        rows = plain(pq.read_table(name, columns=[*columns], filesystem=files, partitioning=None))
        mask = pc.fill_null(self.matcher.matches(rows), fill_value=False)
        return mask if pc.any(mask).as_py() else None

    @property
    def _filesystem(self) -> fs.FileSystem:
        if is_remote(self.path):
            return files_of(self.path)
        return fs.SubTreeFileSystem(self.path, fs.LocalFileSystem())

    def _refused(self, what: str, remedy: str) -> SinkError:
        return SinkError(what, remedy=remedy, step=self.step, table=self.path)


def plain(rows: pa.Table) -> pa.Table:
    """Rows with texts and bytes as such: delta-rs writes them as views, for which Arrow has few functions."""
    return rows.cast(pa.schema([field.with_type(_plain(field.type)) for field in rows.schema]))


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    return kind


def _live(table: DeltaTable) -> dict[str, File]:
    """The files of the newest version, by their names on the disk."""
    return {unquote(str(file["path"])): file for file in pa.table(table.get_add_actions(flatten=True)).to_pylist()}
