"""Shows what a camera saw: read_images.py RECORDING TOPIC [SECONDS_FROM_START]"""

import sys
from datetime import timedelta

import livebag


def main(path, topic, seconds="0"):
    with livebag.open(path) as bag:
        print(bag)
        for message in bag.read_messages(topic, start_time=timedelta(seconds=float(seconds))):
            image = message.image
            print(f"{message.log_time / 1e9:.3f}  {image.shape} {image.dtype}  mean {image.mean():.1f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
