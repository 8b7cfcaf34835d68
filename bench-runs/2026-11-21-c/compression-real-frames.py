"""Real frames (../shared/data/do.bag) through streams, recorded with each compression; the mcap
crate's zstd writer on the same messages (livebag convert, which reads them as well)."""
import json, os, resource, signal, subprocess, sys, time, shutil
livebag, bag, out = sys.argv[1:4]
os.makedirs(out, exist_ok=True)

def timed(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode in (0, 3), done.stderr
    return done.stdout, (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime), done.returncode

def size(path):
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(path) for f in fs)

player = subprocess.Popen([livebag, "play", bag, "--loop", "--rate", sys.argv[4]], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
time.sleep(2)
print(f"{'':22} {'messages':>9} {'MB in':>8} {'MB disk':>8} {'ratio':>6} {'CPU s/GB in':>12} {'lost':>5} exit")
try:
    for label, flags in [("plain", []), ("checksum", ["--checksum"]), ("lz4", ["--compression", "lz4"]),
                         ("zstd -5", ["--compression", "zstd", "--compression-level", "-5"]),
                         ("zstd 1", ["--compression", "zstd"]), ("zstd 3", ["--compression", "zstd", "--compression-level", "3"])]:
        path = f"{out}/{label.replace(' ', '_')}"
        shutil.rmtree(path, ignore_errors=True)
        said, cpu, code = timed([livebag, "record", "-a", "-o", path, "--duration", "8", "--json", "--exclude-regex", "^(livebag-bench|bench)", *flags])
        s = json.loads(said)
        print(f"livebag {label:14} {s['message_count']:9} {s['bytes']/1e6:8.1f} {size(path)/1e6:8.1f} {s['bytes']/size(path):6.2f} {cpu/(s['bytes']/1e9):12.2f} {s['lost']['total']:5} {code}")
finally:
    player.send_signal(signal.SIGINT); player.wait()
plain = f"{out}/plain"
info = json.loads(subprocess.check_output([livebag, "info", plain, "--json"]))
for label, flags in [("mcap crate, plain", []), ("mcap crate, lz4", ["--compression", "lz4"]), ("mcap crate, zstd", ["--compression", "zstd"])]:
    path = f"{out}/mcap"
    shutil.rmtree(path, ignore_errors=True)
    _, cpu, code = timed([livebag, "convert", plain, path, "--storage", "mcap", *flags])
    n = info["message_bytes"]
    print(f"{label:22} {info['message_count']:9} {n/1e6:8.1f} {size(path)/1e6:8.1f} {n/size(path):6.2f} {cpu/(n/1e9):12.2f} {0:5} {code}")
