"""Asks Dagster's web server to reload a code location, which a sensor cannot do itself."""

from __future__ import annotations

import os
import urllib.error
import urllib.request

import orjson

# The address of the web server; `rs-assets ui` sets it for its processes.
URL = "RS_DAGSTER_URL"
PATIENCE_S = 20.0
MUTATION = """
mutation Reload($name: String!) {
  reloadRepositoryLocation(repositoryLocationName: $name) {
    __typename
    ... on WorkspaceLocationEntry { locationOrLoadError { __typename ... on PythonError { message } } }
    ... on UnauthorizedError { message }
    ... on RepositoryLocationNotFound { message }
    ... on ReloadNotSupported { message }
    ... on PythonError { message }
  }
}
"""


def ask_for_reload(location: str | None) -> str:
    """Ask the web server of RS_DAGSTER_URL to reload `location`; returns an empty text or the reason of a failure."""
    url = os.environ.get(URL, "").rstrip("/")
    if not url.startswith(("http://", "https://")):
        return f"{URL} does not name the web server"
    if location is None:
        return "Dagster does not say which code location this is"
    body = orjson.dumps({"query": MUTATION, "variables": {"name": location}})
    request = urllib.request.Request(f"{url}/graphql", data=body, headers={"Content-Type": "application/json"})  # noqa: S310  checked above
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:  # noqa: S310  checked above
            answer = orjson.loads(reply.read())
    except (urllib.error.URLError, OSError, orjson.JSONDecodeError) as error:
        return f"the web server {url} does not answer: {error}"
    return _refusal(answer)


def _refusal(answer: object) -> str:
    """Why the web server has not reloaded the location; empty if it has."""
    data = answer.get("data") if isinstance(answer, dict) else None
    entry = data.get("reloadRepositoryLocation") if isinstance(data, dict) else None
    if not isinstance(entry, dict):
        return f"the web server refuses: {answer}"[:300]
    if entry.get("__typename") != "WorkspaceLocationEntry":
        return str(entry.get("message") or entry.get("__typename"))
    loaded = entry.get("locationOrLoadError") or {}
    return "" if loaded.get("__typename") == "RepositoryLocation" else str(loaded.get("message") or "it does not load")
