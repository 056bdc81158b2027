"""Builds the pipeline of a version."""

from __future__ import annotations

from rs_assets.catalog.deployments import Version
from rs_assets.errors import ConfigurationError, RsError
from rs_assets.stream.pipeline import Pipeline


def pipeline_of(version: Version) -> Pipeline:
    """The pipeline of a version, without using Spark. UserError if its row or text is invalid.

    >>> version = Version(
    ...     pipeline="shop.all",
    ...     version=2,
    ...     note="all of them",
    ...     text='''
    ...     CREATE TABLE hits (page STRING) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
    ...     CREATE TABLE pages (page STRING) WITH ('connector' = 'delta', 'table' = 'pages');
    ...     INSERT INTO pages SELECT page FROM hits''',
    ... )
    >>> pipeline_of(version)
    <Pipeline shop.all: hits -> pages>
    """
    if version.fault:
        raise ConfigurationError(
            f"version {version.version} of {version.pipeline} is invalid: {version.fault}",
            remedy="append a row with a greater version",
        )
    # The name of a file would be read from this machine.
    if version.text.strip().endswith(".sql") and "\n" not in version.text.strip():
        raise ConfigurationError(
            f"version {version.version} of {version.pipeline} has the name of a file where statements should be",
            remedy="put the text of the file into the row: rs-assets deploy FILE",
        )
    return _made(version)


def _made(version: Version) -> Pipeline:
    # SQL is loaded by processes that have a deployed version to build.
    from rs_assets.sql.plan.build import pipeline_from_sql

    try:
        return pipeline_from_sql(
            version.text,
            namespace=version.namespace,
            job=version.job,
            variables=version.variables,
            description=_about(version),
        )
    except RsError:
        raise
    except Exception as error:
        # Texts come from many authors; one of them must not end a loop over all versions.
        raise ConfigurationError(
            f"the text cannot be read: {type(error).__name__}: {str(error)[:200]}", remedy="write it in a simpler way"
        ) from error


def _about(version: Version) -> str:
    """The description of the pipeline in Dagster."""
    by = f" by {version.author}" if version.author else ""
    at = f" at {version.at:%Y-%m-%d %H:%M:%S} UTC" if version.at is not None else ""
    note = f": {version.note}" if version.note else ""
    return f"Deployed version {version.version}{by}{at}{note}\n\n```sql\n{version.text.strip()}\n```"
