"""Times and names as people write them, and what the package says of itself."""

import datetime
import pydoc
import subprocess
import sys
import threading

import livebag
import numpy as np
import pytest
from conftest import START


def test_times_are_texts_wherever_one_is_taken(sample):
    bag = livebag.open(sample)
    times = [message.log_time for message in bag.read_messages("imu")]
    began = datetime.datetime.fromtimestamp(START // 10**9)
    moment = datetime.datetime.fromtimestamp(START // 10**9, datetime.timezone.utc)
    for text in ("+0s", "0s", str(START), f"{START // 10**9}.0", f"{moment:%Y-%m-%dT%H:%M:%SZ}", f"{began:%H:%M:%S}"):
        assert [m.log_time for m in bag.read_messages("imu", text, "+50ms")] == times[:6], text
    assert [m.log_time for m in bag.latest("20ms", "imu")] == times[-3:]
    assert len(list(bag.auto("10s", "imu"))) == 30
    for text in ("soon", "1 parsec", "2023-11-14T22:13:20"):
        with pytest.raises(ValueError, match="is not a time: expected"):
            bag.read_messages("imu", text)
    with pytest.raises(ValueError, match="is not a span of time"):
        bag.latest("long")


def test_names_do_with_and_without_a_slash(sample):
    bag = livebag.open(sample)
    assert bag.topics["imu"].name == bag.topics["/imu"].name == "/imu"
    assert "imu" not in list(bag.topics)
    assert len(list(bag.read_messages(["imu", "/tf"]))) == 60
    assert bag.arrow_stream("imu")
    with pytest.raises(livebag.NoTopic, match="/none"):
        bag.read_messages("/none")
    with pytest.raises(livebag.NoTopic):
        bag.topics["none"]


def test_a_table_is_streamed_as_often_as_it_is_asked_for(sample):
    pyarrow = pytest.importorskip("pyarrow")
    columns = livebag.open(sample).arrow_stream("imu")
    tables = [pyarrow.RecordBatchReader.from_stream(columns).read_all() for _ in range(2)]
    assert tables[0].num_rows == 30 and tables[0].equals(tables[1])


def test_a_stream_is_waited_for(stream_name):
    with pytest.raises(livebag.NotFound):
        livebag.Stream.open(stream_name, timeout="10ms")
    made = []
    thread = threading.Timer(0.05, lambda: made.append(livebag.Stream.image(stream_name, 4, 2)))
    thread.start()
    with livebag.Stream.open(stream_name, timeout=60) as reader:
        thread.join()
        made[0].publish(np.zeros((2, 4, 3), np.uint8))
        assert reader.next(timeout=60).image.shape == (2, 4, 3)
    made[0].close()


def test_the_package_shows_what_is_meant_for_users():
    for name in livebag.__all__:
        thing = getattr(livebag, name)
        if isinstance(thing, type) and issubclass(thing, livebag.Error):
            assert thing.__module__ == "livebag", name
    shown = pydoc.plain(pydoc.render_doc(livebag))
    head, _, _ = shown.partition("\nCLASSES")
    assert len(head.splitlines()) <= 30 and "import livebag" in head
    assert "_recording" not in head and "_livebag" not in head
    # Its modules are found all the same.
    subprocess.run([sys.executable, "-c", "import livebag._recording, livebag._decode, livebag"], check=True)


def test_loops_know_what_they_give(tmp_path):
    api = pytest.importorskip("mypy.api")
    program = tmp_path / "loops.py"
    loops = ["bag", "bag.read_messages('imu', '+1s')", "bag.latest('1s')", "bag.auto(1)", "bag.follow(timeout='1s')"]
    program.write_text("import livebag\nbag = livebag.open('run')\n"
                       + "".join(f"for message in {loop}:\n    reveal_type(message)\n" for loop in loops))
    told, _, _ = api.run(["--no-incremental", "--cache-dir", str(tmp_path), str(program)])
    assert told.count('Revealed type is "livebag._livebag.Message"') == len(loops), told


def test_names_with_control_characters_are_shown_as_escapes(tmp_path):
    evil = "/a\x1b[31m\nb\u202e"
    path = tmp_path / "run"
    with livebag.Recorder(path) as recorder:
        writer = recorder.topic(evil, "t/msg/\x1b[2J", encoding="json")
        shown = [repr(writer)]
        writer.write(b"{}")
    bag = livebag.open(path)
    for ask in (lambda: bag.topics["none"], lambda: bag.read_messages("none"), lambda: bag.arrow_stream("none"),
                lambda: livebag.dataset(path, topics="none").to_arrow()):
        with pytest.raises(livebag.NoTopic) as told:
            ask()
        shown.append(str(told.value))
    message = next(iter(bag.read_messages()))
    shown += [repr(bag.topics), repr(bag.topics[evil]), repr(bag), repr(message), repr(message.channel)]
    for text in shown:
        assert "\\n" in text and not [sign for sign in text.replace("\n  ", "") if not sign.isprintable()], text


def test_files_that_are_gone_are_warned_of(tmp_path, recwarn):
    path = tmp_path / "run"
    with livebag.Recorder(path) as recorder:
        for name in ("/a", "/b"):
            recorder.topic(name, "t/msg/T", encoding="json").write(b"{}")
    livebag.open(path)
    assert not recwarn
    next(path.glob("a*.mcap")).unlink()
    with pytest.warns(RuntimeWarning, match="1 message was recorded and cannot be reached"):
        bag = livebag.open(path)
    assert len(list(bag.read_messages("/b"))) == 1
