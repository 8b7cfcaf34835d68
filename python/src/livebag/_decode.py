"""Messages as objects, by whatever definition was stored with them. The `rosbags` package does it."""

from __future__ import annotations

import json
from typing import Any, Callable

from ._errors import DecodeError, Unsupported
from ._livebag import Channel

_SEPARATOR = "=" * 80


def decoder_for(channel: Channel) -> Callable[[Any], Any]:
    """A function from a message's bytes to an object with the definition's fields."""
    if channel.message_encoding == "json":
        return lambda data: _or_error(channel, json.loads, data)
    if channel.message_encoding not in ("cdr", "ros1"):
        raise Unsupported(
            f"messages of {channel.name} are encoded as {channel.message_encoding!r}; cdr, ros1 and json are "
            "decoded, others are in `data` for a decoder of yours"
        )
    store, name = _typestore(channel)
    read = store.deserialize_cdr if channel.message_encoding == "cdr" else store.deserialize_ros1
    return lambda data: _or_error(channel, lambda data: read(data, name), data)


def _or_error(channel: Channel, read: Callable[[Any], Any], data: Any) -> Any:
    try:
        return read(data)
    except Exception as error:
        raise DecodeError(f"a message of {channel.name} is no {channel.type_name}: {error}") from error


def _typestore(channel: Channel) -> tuple[Any, str]:
    """A store with only this channel's types: two recordings may define one name differently."""
    try:
        from rosbags.typesys import Stores, get_types_from_idl, get_types_from_msg, get_typestore
    except ImportError as error:
        raise Unsupported("decoding needs the package rosbags: pip install 'livebag[decode]'") from error
    name = _full_name(channel.type_name)
    text = channel.schema.decode("utf-8", "replace")
    bundled = Stores.ROS1_NOETIC if channel.message_encoding == "ros1" else Stores.LATEST
    if not text:
        store = get_typestore(bundled)
        if name not in store.types:
            raise Unsupported(
                f"the recording has no definition of {channel.type_name!r}, and neither has the package rosbags"
            )
        return store, name
    store = get_typestore(Stores.EMPTY)
    try:
        if channel.schema_encoding == "ros2idl":
            types = get_types_from_idl(text)
        elif channel.schema_encoding in ("ros2msg", "ros1msg"):
            types = get_types_from_msg(_with_separators(text), name)
        else:
            raise Unsupported(
                f"the definition of {channel.type_name} is written as {channel.schema_encoding!r}; ros2msg, "
                "ros1msg and ros2idl are read"
            )
        # Some writers leave these out.
        known = get_typestore(bundled).fielddefs
        for common in ("builtin_interfaces/msg/Time", "builtin_interfaces/msg/Duration", "std_msgs/msg/Header"):
            if common in known:
                types.setdefault(common, known[common])
        store.register(types)
    except Unsupported:
        raise
    except Exception as error:
        raise Unsupported(f"the definition of {channel.type_name} cannot be read: {error}") from error
    return store, name


def _full_name(name: str) -> str:
    """`sensor_msgs/Image` as `sensor_msgs/msg/Image`."""
    package, _, rest = name.partition("/")
    return name if "/" in rest or not rest else f"{package}/msg/{rest}"


def _with_separators(text: str) -> str:
    """Separators of 80 signs, whatever the writer's were."""
    lines = (line.rstrip() for line in text.splitlines())
    return "\n".join(_SEPARATOR if len(line) >= 10 and not line.strip("=") else line for line in lines)
