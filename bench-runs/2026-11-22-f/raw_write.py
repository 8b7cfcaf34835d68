import mmap, os, sys, time, ctypes
FRAME, COUNT, RATE = 5_529_600, 100, 36
D=(FRAME+4095)//4096*4096; SLOT=6<<20
libc=ctypes.CDLL(None,use_errno=True)
path="/work/raw"
f=open("/tmp/hugeshm/raw","w+b"); f.truncate(16*SLOT+(2<<20)); memory=mmap.mmap(f.fileno(),0)
for at in range(0,len(memory),4096): memory[at]=1
def kw():
    # cpu of kworkers
    t=0
    for p in os.listdir('/proc'):
        if p.isdigit():
            try:
                s=open(f'/proc/{p}/comm').read()
                if s.startswith('kworker') or s.startswith('ksoft') or s.startswith('jbd2'): t+=int(open(f'/proc/{p}/schedstat').read().split()[0])
            except Exception: pass
    return t/1e3
for kind in ("extend","keepsize","size","overwrite")*2:
    fd=os.open(path,os.O_CREAT|os.O_WRONLY|os.O_DIRECT)
    if kind=="keepsize": libc.fallocate(fd,1,ctypes.c_long(0),ctypes.c_long(COUNT*D))
    if kind in("size","overwrite"): libc.fallocate(fd,0,ctypes.c_long(0),ctypes.c_long(COUNT*D))
    slots=[memoryview(memory)[i*SLOT:i*SLOT+D] for i in range(16)]
    if kind=="overwrite":
        for n in range(COUNT): os.pwrite(fd,slots[n%16],n*D)
    spent=[];wall=[];k=kw();start=time.monotonic()
    for n in range(COUNT):
        time.sleep(max(0.0,start+n/RATE-time.monotonic()))
        b=time.thread_time_ns();w=time.monotonic_ns()
        assert os.pwrite(fd,slots[n%16],n*D)==D
        spent.append((time.thread_time_ns()-b)/1e3);wall.append((time.monotonic_ns()-w)/1e3)
    k=(kw()-k)/COUNT
    os.close(fd);os.unlink(path);spent.sort();wall.sort()
    print(kind,f"cpu mean {sum(spent)/COUNT:.0f} p10 {spent[COUNT//10]:.0f} p50 {spent[COUNT//2]:.0f} wall p50 {wall[COUNT//2]:.0f} kworkers {k:.0f}",flush=True)
