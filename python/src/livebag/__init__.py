"""livebag: read, publish and record what robots sense.

Any moment of a recording, finished or still being written, oldest first or newest first::

    import livebag

    with livebag.open("run1") as run:
        for message in run.read_messages("/camera/image", start_time="+1s"):
            show(message.image)                 # a view of the message's own bytes
        imu = run.to_pandas("/imu/data")        # columns, decoded in Rust

Streams in shared memory, which a recorder on the same machine picks up::

    with livebag.Stream.image("camera", 1920, 1080, encoding="bgr8") as camera:
        camera.publish(frame)

Returned times are nanoseconds since 1970. As arguments, an ``int`` is nanoseconds and a ``float`` seconds since 1970; a
``datetime`` and texts (``"+1s"``, RFC 3339) work as well.
"""

# Submodules cannot be found later (see the end).
from . import _align, _daft, _decode, _polars, _ray  # noqa: F401
from ._recording import Recording, Topic, Topics, convert, open
from ._cycle import Cycle, cycle
from ._dataset import Dataset, dataset
from ._errors import (
    Damaged,
    DecodeError,
    Error,
    NoTopic,
    NotFound,
    QueueFull,
    RecordingError,
    StreamError,
    Unsupported,
)
from ._event import Event
from ._livebag import Account, Attachment, Channel, Frame, Message, __version__
from ._recorder import Recorder, TopicStatus, TopicWriter
from ._stream import Publisher, Stream, StreamInfo, StreamReader, remove_stream, streams

__all__ = [
    "Account",
    "Attachment",
    "Channel",
    "Cycle",
    "Damaged",
    "Dataset",
    "DecodeError",
    "Error",
    "Event",
    "Frame",
    "Message",
    "NoTopic",
    "NotFound",
    "Publisher",
    "QueueFull",
    "Recorder",
    "Recording",
    "RecordingError",
    "Stream",
    "StreamError",
    "StreamInfo",
    "StreamReader",
    "Topic",
    "TopicStatus",
    "TopicWriter",
    "Topics",
    "Unsupported",
    "__version__",
    "convert",
    "cycle",
    "dataset",
    "open",
    "remove_stream",
    "streams",
]


def __dir__() -> list[str]:
    return __all__


# All modules are private, and have been imported: `help(livebag)` would begin with a list of them.
del __path__
