"""Indexes of OpenSearch and Elasticsearch as sinks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from rs_assets.common.node import NO_EFFECT
from rs_assets.connectors.http.endpoint import HttpEndpoint
from rs_assets.connectors.http.nodes import Refused, check_options, of_requests, one_of
from rs_assets.connectors.nodes import Sink
from rs_assets.connectors.search.index import IndexName

Flavour = Literal["opensearch", "elasticsearch"]
SearchMode = Literal["append", "upsert"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSink(Sink):
    """Documents of an index. `append` adds one for each row, `upsert` replaces that of the same `keys`.

    Of the rows of a batch with equal keys the one that was read last is taken. If its boolean field `deletes` is true,
    the document is deleted; that field is not part of documents. `version` is a field whose greatest value wins.
    """

    at_once: ClassVar[bool] = True
    icon: ClassVar[str] = "opensearch"
    order_by: ClassVar[tuple[str, ...]] = ()

    endpoint: HttpEndpoint
    index: IndexName
    mode: SearchMode = "append"
    keys: tuple[str, ...] = ()
    deletes: str | None = None
    version: str | None = None
    flavour: Flavour | None = None
    batch: int = field(default=1_000, metadata=NO_EFFECT)
    rows_per_second: float | None = field(default=None, metadata=NO_EFFECT)
    refused: Refused = "fail"

    def __post_init__(self) -> None:
        """Refuse invalid options and combinations of them."""
        Sink.__post_init__(self)
        upsert = self.mode == "upsert"
        check_options(
            self.name,
            (one_of("mode", self.mode, get_args(SearchMode)),
             (self.flavour is None or self.flavour in get_args(Flavour),
              f"the flavour must be one of {', '.join(get_args(Flavour))}, not {self.flavour!r}", "leave flavour out"),
             (upsert == bool(self.keys), "keys belong to mode='upsert' and it needs them", "keys=['id']"),
             (upsert or self.deletes is None, "deletes belongs to mode='upsert'", "leave it out"),
             (upsert or self.version is None, "version belongs to mode='upsert'", "leave it out"),
             (not {self.deletes, self.version} & {*self.keys}, "a key marks neither deleted rows nor versions",
              "name another field"),
             (not upsert or set(self.index.fields) <= {*self.keys},
              "a row whose index changes would leave its document in the old one",
              "name the fields of the index in keys, too"),
             *of_requests(self.batch, self.rows_per_second, self.refused)),
        )  # fmt: skip

    @property
    def place(self) -> str:
        """The server and the index, without credentials."""
        return f"{self.endpoint.where.rstrip('/')}/{self.index.text}"

    @property
    def read_order(self) -> bool:
        """Whether the winning row depends on the positions at which rows were read."""
        return self.mode == "upsert"

    @property
    def needed(self) -> tuple[str, ...]:
        """The fields without which a row has no document."""
        return (*self.keys, *filter(None, (self.version,)), *self.index.fields)

    @property
    def flag(self) -> str | None:
        """The boolean column of the rows that delete the row of their keys; None if none does."""
        return self.deletes

    @property
    def named(self) -> tuple[str, ...]:
        """The fields of a row that its settings name."""
        return (*self.needed, *filter(None, (self.deletes,)))

    def detail(self) -> str:
        """Mode and place."""
        gone = f" but {self.deletes}" if self.deletes else ""
        return f"{self.mode} {self.place}{gone}"
