"""NumPy views of images and point clouds: of the message's own bytes, nothing is copied."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from ._errors import Damaged, Unsupported

if TYPE_CHECKING:
    from ._livebag import Frame, Message

    Array = np.ndarray[Any, Any]
    Field = tuple[str, int, int, int]

#: Channels and their type, by `sensor_msgs/image_encodings.h`.
_ENCODINGS = {
    "rgb8": (3, "u1"),
    "bgr8": (3, "u1"),
    "rgba8": (4, "u1"),
    "bgra8": (4, "u1"),
    "mono8": (1, "u1"),
    "rgb16": (3, "u2"),
    "bgr16": (3, "u2"),
    "rgba16": (4, "u2"),
    "bgra16": (4, "u2"),
    "mono16": (1, "u2"),
    "bayer_rggb8": (1, "u1"),
    "bayer_bggr8": (1, "u1"),
    "bayer_gbrg8": (1, "u1"),
    "bayer_grbg8": (1, "u1"),
    "bayer_rggb16": (1, "u2"),
    "bayer_bggr16": (1, "u2"),
    "bayer_gbrg16": (1, "u2"),
    "bayer_grbg16": (1, "u2"),
    "yuv422": (2, "u1"),
    "uyvy": (2, "u1"),
    "yuv422_yuy2": (2, "u1"),
    "yuyv": (2, "u1"),
}
#: OpenCV's names of types: `8UC3`, `32FC1`, …
_OPENCV = {"8U": "u1", "8S": "i1", "16U": "u2", "16S": "i2", "32S": "i4", "32F": "f4", "64F": "f8"}
#: Types of a PointField, by number.
_POINT_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 8: "f8"}
_POINT_NUMBERS = {name: number for number, name in _POINT_TYPES.items()}


@functools.lru_cache(maxsize=256)
def pixel_format(encoding: str, is_bigendian: bool = False) -> tuple[int, np.dtype[Any]]:
    """Channels and dtype of a pixel encoding.

    >>> pixel_format("bgr8")
    (3, dtype('uint8'))
    >>> pixel_format("16UC1")
    (1, dtype('uint16'))
    """
    known = _ENCODINGS.get(encoding.lower())
    if known is None:
        kind, _, channels = encoding.upper().partition("C")
        if kind not in _OPENCV or not (channels.isdigit() or channels == ""):
            raise Unsupported(
                f"pixels of encoding {encoding!r} have no view: expected rgb8, bgr8, mono8, mono16, 32FC1 or "
                "their like; the bytes are in `data`"
            )
        known = (int(channels or 1), _OPENCV[kind])
    return known[0], np.dtype((">" if is_bigendian else "<") + known[1])


def memory_of(mapped: Any) -> memoryview:
    """A message in a mapped file, as memory."""
    return np.asarray(mapped).data


def image_of(source: Message | Frame, memory: Any = None) -> Array:
    """The pixels of a message or a frame: `(height, width)`, or `(height, width, channels)`; in `memory`, if they are
    not in its `data`."""
    height, width, encoding, is_bigendian, step, offset, count = source._image_place()
    channels, dtype = pixel_format(encoding, is_bigendian)
    row = width * channels * dtype.itemsize
    if step < row or step * height > count:
        raise Damaged(
            f"an image of {width}x{height} pixels of {encoding} needs {height} rows of at least {row} bytes; "
            f"it has rows of {step} and {count} bytes in all"
        )
    strides = (step, channels * dtype.itemsize, dtype.itemsize)
    shape = (height, width, channels)
    dimensions = 2 if channels == 1 else 3
    data = source.data if memory is None else memory
    view: Array = np.ndarray(shape[:dimensions], dtype, data, offset, strides[:dimensions])
    return view


@functools.lru_cache(maxsize=256)
def _point_dtype(fields: tuple[Field, ...], is_bigendian: bool, point_step: int) -> np.dtype[Any]:
    names: list[str] = []
    formats: list[Any] = []
    offsets: list[int] = []
    for name, offset, datatype, count in fields:
        if datatype not in _POINT_TYPES:
            raise Unsupported(f"the point field {name!r} is of type {datatype}, expected 1 to 8")
        scalar = np.dtype((">" if is_bigendian else "<") + _POINT_TYPES[datatype])
        if offset + scalar.itemsize * max(count, 1) > point_step:
            raise Damaged(f"the point field {name!r} ends behind the {point_step} bytes of a point")
        names.append(name or f"f{len(names)}")
        formats.append(scalar if count <= 1 else (scalar, (count,)))
        offsets.append(offset)
    if len(set(names)) < len(names):
        raise Unsupported(f"two fields of a point have one name: {', '.join(names)}")
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": point_step})


def points_of(source: Message | Frame, memory: Any = None) -> Array:
    """The points of a message or a frame: a structured array, `(width,)`, or `(height, width)` of an
    ordered cloud; in `memory`, if they do not lie in its `data`."""
    height, width, fields, is_bigendian, point_step, row_step, offset, count = source._points_place()
    dtype = _point_dtype(tuple(fields), is_bigendian, point_step)
    # Some drivers leave the row step at 0 where there is one row.
    row_step = row_step if height > 1 else width * point_step
    if row_step < width * point_step or row_step * height > count:
        raise Damaged(
            f"a cloud of {width}x{height} points of {point_step} bytes needs {height} rows of at least "
            f"{width * point_step} bytes; it has rows of {row_step} and {count} bytes in all"
        )
    first = 1 if height == 1 else 0
    shape, strides = (height, width)[first:], (row_step, point_step)[first:]
    data = source.data if memory is None else memory
    view: Array = np.ndarray(shape, dtype, data, offset, strides)
    return view


def point_fields(dtype: np.dtype[Any]) -> list[Field]:
    """The fields of a structured dtype as PointField tuples: name, offset, datatype, count.

    >>> point_fields(np.dtype([("x", "<f4"), ("y", "<f4"), ("ring", "<u2")]))
    [('x', 0, 7, 1), ('y', 4, 7, 1), ('ring', 8, 4, 1)]
    """
    if dtype.names is None or dtype.fields is None:
        raise TypeError(f"points are a structured array, e.g. of dtype [('x', 'f4'), …], not {dtype}")
    fields = []
    for name in dtype.names:
        field, offset = dtype.fields[name][:2]
        scalar, shape = field.subdtype or (field, ())
        number = _POINT_NUMBERS.get(scalar.str[1:])
        if number is None or scalar.str[0] == ">":
            raise TypeError(f"the point field {name!r} is {scalar}, expected a little-endian i1 to f8")
        count = 1
        for length in shape:
            count *= length
        fields.append((name, offset, number, count))
    return fields


def encoding_of(array: Array) -> str:
    """A pixel encoding for an array that comes without one: OpenCV's, since NumPy knows no colours.

    >>> encoding_of(np.zeros((2, 3, 3), np.uint8))
    '8UC3'
    """
    for name, code in _OPENCV.items():
        if np.dtype("<" + code) == array.dtype:
            return f"{name}C{1 if array.ndim == 2 else array.shape[2]}"
    raise TypeError(f"there is no pixel encoding for arrays of {array.dtype}")


def image_layout(array: Array, encoding: str | None = None) -> tuple[int, int, int, str, int]:
    """Checks an array of pixels; gives height, width, channels, encoding and bytes of a pixel."""
    if array.ndim not in (2, 3):
        raise TypeError(f"an image is an array (height, width[, channels]), this one has {array.ndim} dimensions")
    encoding = encoding or encoding_of(array)
    channels, dtype = pixel_format(encoding)
    found = array.shape[2] if array.ndim == 3 else 1
    if found != channels or array.dtype.newbyteorder("<") != dtype:
        raise TypeError(
            f"an image of encoding {encoding} has {channels} channels of {dtype}, the array has {found} of "
            f"{array.dtype}"
        )
    return array.shape[0], array.shape[1], channels, encoding, channels * dtype.itemsize
