"""Publishes NumPy frames into a stream, records them, and reads them back: publish_and_record.py FOLDER"""

import sys
import time

import livebag
import numpy as np

WIDTH, HEIGHT, FRAMES = 1280, 720, 90


def main(folder):
    with (
        livebag.Stream.image("example_camera", WIDTH, HEIGHT, encoding="rgb8", remove_on_close=True) as camera,
        livebag.Recorder(folder, "example_camera") as recorder,
    ):
        while camera.topic not in recorder.topics:  # The recorder looks for streams ten times a second.
            time.sleep(0.01)
        for k in range(FRAMES):
            with camera.loan(WIDTH, HEIGHT) as image:
                image[...] = np.arange(WIDTH, dtype=np.uint8)[None, :, None] + k
            time.sleep(1 / 30)
    print(recorder)
    with livebag.open(folder) as bag:
        print(bag)
        newest = next(bag.auto(1.0))
        print("the newest frame:", newest.image.shape, "first pixel", newest.image[0, 0])


if __name__ == "__main__":
    main(*sys.argv[1:])
