"""Uploaded checkpoints: the checkpoint of each batch in a store, before the sinks commit it."""

from rs_assets.recovery.uploads.store import RunMark, SignOfLife, Upload, UploadId, UploadStore, pipelines_of
from rs_assets.recovery.uploads.uploader import QueryUploads, Uploader, adopt_held

__all__ = [
    "QueryUploads",
    "RunMark",
    "SignOfLife",
    "Upload",
    "UploadId",
    "UploadStore",
    "Uploader",
    "adopt_held",
    "pipelines_of",
]
