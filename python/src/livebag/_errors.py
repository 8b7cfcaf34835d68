"""Errors. Every text names what was expected, what was found, and a remedy."""

from __future__ import annotations


def visible(text: str) -> str:
    r"""The text with control characters and invisible ones as escapes: names in files are anybody's.

    >>> visible("/imu\x1b[31m")
    '/imu\\x1b[31m'
    """
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


class Error(Exception):
    """Everything that livebag raises by itself."""

    def __str__(self) -> str:
        # Some texts have several lines.
        return "\n".join(map(visible, str(self.args[0]).split("\n"))) if self.args else ""


class NotFound(Error, FileNotFoundError):
    """There is no such recording, or no such stream."""


class NoTopic(Error, KeyError):
    """The recording has no topic of this name."""


class Damaged(Error):
    """A file is damaged."""


class Unsupported(Error):
    """Not a recording, or something that livebag does not do with this type or encoding."""


class DecodeError(Error):
    """A message is not what its definition says."""


class RecordingError(Error):
    """A recording could not begin, or did not end well."""


class QueueFull(RecordingError):
    """The recorder's queue took no more: the message was dropped, and counted as lost."""


class StreamError(Error):
    """A stream could not be made, opened, written or read."""


# Users see them, and catch them, under the package's name.
for _error in (
    Error,
    NotFound,
    NoTopic,
    Damaged,
    Unsupported,
    DecodeError,
    RecordingError,
    QueueFull,
    StreamError,
):
    _error.__module__ = "livebag"
del _error
