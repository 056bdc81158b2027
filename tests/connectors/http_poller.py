"""A poller of an HTTP service, as somebody would write it who has only read docs/connectors.md."""

import json
import urllib.request
from datetime import timedelta

from rs_assets.sources import PollingSource


class Tickets(PollingSource):
    """Asks for tickets after the last one; the service answers with a page of them."""

    schema = "page string, ms bigint"
    every = timedelta(milliseconds=10)

    def __init__(self, url):
        self.url = url

    def poll(self, cursor):
        with urllib.request.urlopen(f"{self.url}?after={cursor or 0}", timeout=10) as answer:
            page = json.load(answer)
        return page["rows"], page["next"]

    def location(self):
        return self.url
