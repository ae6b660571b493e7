"""Counts of uploads that were made, and of those that data on the device has saved."""

from __future__ import annotations

from typing import NamedTuple


class UploadReuse(NamedTuple):
    """Uploads that were made, and uploads that resident data saved, in numbers and bytes."""

    cold_uploads: int = 0
    warm_reuses: int = 0
    upload_bytes: int = 0
    avoided_upload_bytes: int = 0
