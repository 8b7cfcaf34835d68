"""The HTML report of `livebag bench`, laid out by a real browser.

run.sh builds the command (LIVEBAG) and gets a browser where one can be had (LIVEBAG_BROWSER)."""

import json
import os
import re

import pytest
from tools import livebag, run

BROWSER = os.environ.get("LIVEBAG_BROWSER")
pytestmark = pytest.mark.skipif(not BROWSER, reason="no Chromium here, and none could be installed")

BENCHMARK = """
rosbag2_performance_benchmarking:
  benchmark_node:
    ros__parameters:
      benchmark:
        repeat_each: 2
        parameters:
          max_cache_size: [0, 100000000]
          storage_config_file: ["", fastwrite, resilient]
"""

# Written into the page as text, since --dump-dom shows nothing else.
PROBE = """
<script>
const box = e => { const b = e.getBoundingClientRect(); return {x: b.left, y: b.top, r: b.right, b: b.bottom}; };
const charts = [...document.querySelectorAll("svg")].map(svg => ({
  box: box(svg),
  texts: [...svg.querySelectorAll("text")].map(t => ({...box(t), text: t.textContent.trim()})).filter(t => t.text),
  marks: [...svg.querySelectorAll("rect, circle")].map(box),
}));
const found = {charts, width: document.documentElement.scrollWidth, seen: innerWidth,
  tables: [...document.querySelectorAll("td, th")].map(c => c.textContent)};
document.body.textContent = "FOUND" + JSON.stringify(found) + "END";
</script>
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report of many combinations, whose runs are as short as can be."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "bench.yaml").write_text(BENCHMARK)
    livebag("bench", "--any-commit", folder / "bench.yaml", "--profile", "100MBs_raw", "--duration", "50ms", "-o", folder / "out")
    (report,) = folder.glob("out/*/report.html")
    return report


def laid_out(page, folder, width):
    """The browser's layout of the page in a window of this width."""
    probed = folder / f"probed_{width}.html"
    probed.write_text(page.read_text().replace("</body>", PROBE + "</body>"))
    # A browser run by root, as in containers, needs --no-sandbox; the page is our own.
    said = run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                f"--user-data-dir={folder / 'profile'}", f"--window-size={width},1000",
                "--dump-dom", f"file://{probed}"])
    return json.loads(re.search("FOUND(.*)END", said, re.DOTALL).group(1))


def overlap(a, b):
    """Whether the boxes share more than a pixel each way."""
    return min(a["r"], b["r"]) - max(a["x"], b["x"]) > 1 and min(a["b"], b["b"]) - max(a["y"], b["y"]) > 1


@pytest.mark.parametrize("width", [1280, 1000])
def test_every_chart_is_there_and_its_words_can_be_read(page, tmp_path, width):
    found = laid_out(page, tmp_path, width)
    assert len(found["charts"]) == 8
    assert found["width"] <= found["seen"], "the page is wider than the window"
    for chart in found["charts"]:
        words = chart["texts"]
        title = words[0]["text"]
        whole = chart["box"]
        # Six combinations or more: a label, a mark and a value for each, and the axis.
        assert len(chart["marks"]) >= 6 and len(words) >= 2 * 6 + 4, title
        for mark in chart["marks"]:
            assert mark["x"] >= whole["x"] - 1 and mark["r"] <= whole["r"] + 1, title
        for word in words:
            inside = word["x"] >= whole["x"] and word["r"] <= whole["r"] and word["y"] >= whole["y"] - 1
            assert inside and word["b"] <= whole["b"] + 1, f"{title}: {word['text']} is cut off"
            assert word["b"] - word["y"] >= 10, f"{title}: {word['text']} is too small"
        for index, word in enumerate(words):
            for other in words[index + 1:]:
                assert not overlap(word, other), f"{title}: {word['text']} lies on {other['text']}"
    for storage in ("livebag", "mcap", "sqlite3"):
        assert storage in found["tables"]
