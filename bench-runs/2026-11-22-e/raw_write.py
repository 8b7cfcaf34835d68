"""The processor time of one direct write of a camera's frame (5,529,600 B), one every 1/36 s, from memory and from a
stream's kind of memory (a file in /dev/shm), into a file that fallocate has reserved: the floor of `submit`."""
import mmap, os, sys, time
FRAME, COUNT, RATE = 5_529_600, 288, 36
FRAME_ON_DISK = (FRAME + 4095) // 4096 * 4096
path, shared = sys.argv[1] + "/raw", "/dev/shm/raw-write-floor"
for kind in ("memory", "shared memory") * 2:
    if kind == "memory":
        memory = mmap.mmap(-1, 16 * FRAME_ON_DISK)
    else:
        with open(shared, "w+b") as file:
            file.truncate(16 * FRAME_ON_DISK)
            memory = mmap.mmap(file.fileno(), 0)
    for at in range(0, len(memory), 4096):
        memory[at] = 1
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
    os.posix_fallocate(fd, 0, COUNT * FRAME_ON_DISK)
    slots = [memoryview(memory)[i * FRAME_ON_DISK:(i + 1) * FRAME_ON_DISK] for i in range(16)]
    spent = []
    start = time.monotonic()
    for number in range(COUNT):
        time.sleep(max(0.0, start + number / RATE - time.monotonic()))
        before = time.thread_time_ns()
        assert os.pwrite(fd, slots[number % 16], number * FRAME_ON_DISK) == FRAME_ON_DISK
        spent.append((time.thread_time_ns() - before) / 1e3)
    os.close(fd)
    os.unlink(path)
    spent.sort()
    print(f"{kind}: µs of a write, mean {sum(spent) / COUNT:.0f}, p10 {spent[COUNT // 10]:.0f}, "
          f"p50 {spent[COUNT // 2]:.0f}, p90 {spent[COUNT * 9 // 10]:.0f}")
    if kind != "memory":
        os.unlink(shared)
