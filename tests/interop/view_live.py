"""Looks at a recording by a client that is not ours (PyPI robo-ws-bridge), as view_live.mjs does: view_live.py URL COUNT [END]."""

import asyncio
import hashlib
import json
import sys

from robo_ws_bridge import WebSocketBridgeClient


async def main(url, count, end):
    client = WebSocketBridgeClient(url)
    topics, seen, whole = {}, 0, asyncio.Event()

    async def advertised(channel):
        topics.setdefault(channel["topic"], [])
        await client.subscribe(channel["topic"])

    async def message(channel, timestamp, payload):
        nonlocal seen
        topics[channel["topic"]].append([str(timestamp), hashlib.sha256(payload).hexdigest()])
        seen += 1
        if seen == count:
            whole.set()

    async def time(timestamp):
        if end is not None and timestamp >= end:
            whole.set()

    client.on_time_update(time)
    client.on_advertised_channel(advertised)
    client.on_message(message)
    await client.connect()
    await asyncio.wait_for(whole.wait(), 60)
    print(json.dumps({"topics": topics}))
    await client.disconnect()


asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None))
