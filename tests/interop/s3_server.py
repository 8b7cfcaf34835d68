"""versitygw, an S3 server of another project, for the tests here and in python/tests."""

import contextlib
import os
import socket
import subprocess
import time

import pytest

KEY, SECRET = "robot7key", "robot7secretrobot7secret"
VERSITYGW = os.environ.get("LIVEBAG_VERSITYGW", "")
WAIT_S = 60


@contextlib.contextmanager
def serving(root):
    """Serves the folder `root`, whose folders are the buckets: the variables with which it is reached."""
    if not VERSITYGW:
        assert os.environ.get("LIVEBAG_REQUIRE") != "all", "LIVEBAG_REQUIRE=all, but versitygw was not built"
        pytest.skip("SKIPPED: versitygw is not there (it is built where there is Go)")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    path = root.parent / "versitygw.log"
    keys = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
    with path.open("w") as log:
        server = subprocess.Popen([VERSITYGW, "--port", f"127.0.0.1:{port}", "posix", root],
                                  env=os.environ | keys, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + WAIT_S
        while True:
            assert server.poll() is None and time.monotonic() < deadline, path.read_text()
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield {
            "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        }
    finally:
        server.kill()
        server.wait()
