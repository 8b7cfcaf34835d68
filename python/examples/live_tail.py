"""Follows a recording that is being written, and prints new messages: live_tail.py RECORDING [TOPIC…]"""

import sys
import time

import livebag


def main(path, *topics):
    with livebag.open(path) as bag:
        # By topic: one topic's newest may be committed before another's older ones.
        after = {name: topic.end_time or 0 for name, topic in bag.topics.items()}
        while True:
            # Asked first, so that what was committed before the end is not missed.
            is_live = bag.is_live
            for name in topics or bag.topics:
                for message in bag.read_messages(name, start_time=after.get(name, 0) + 1):
                    age = (time.time_ns() - message.log_time) / 1e6
                    print(f"{name}  {len(message)} B  {age:.1f} ms old")
                    after[name] = message.log_time
            if not is_live:
                return
            time.sleep(0.02)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        pass
