import mmap, os, sys, time, threading
D=5_529_600//4096*4096; SLOT=6<<20
memory=mmap.mmap(-1,8*SLOT)
for at in range(0,len(memory),4096): memory[at]=1
def big(path,n=200):
    fd=os.open(path,os.O_CREAT|os.O_WRONLY|os.O_DIRECT)
    for i in range(n*1000000//D): os.pwrite(fd,memoryview(memory)[:D],i*D)
    os.close(fd)
def writer(stop,lat,path):
    fd=os.open(path,os.O_CREAT|os.O_WRONLY|os.O_DIRECT|os.O_TRUNC); n=0; t0=time.monotonic()
    while not stop.is_set():
        w=time.monotonic(); os.pwrite(fd,memoryview(memory)[(n%8)*SLOT:(n%8)*SLOT+D],n*D); e=time.monotonic(); lat.append((w,e-w)); n+=1
        d=t0+n*D/0.5e9-time.monotonic()   # each of two at 0.5 GB/s
        if d>0: time.sleep(d)
    os.close(fd); os.unlink(path)
def run(kind):
    files=[f"/work/dt/f{i}" for i in range(5)]
    for f in files: big(f)
    os.sync(); time.sleep(2)
    lats=[[],[]]; stop=threading.Event()
    ts=[threading.Thread(target=writer,args=(stop,lats[i],f"/work/dt/w{i}")) for i in range(2)]
    [t.start() for t in ts]; time.sleep(1.5); a=time.monotonic()
    if kind=='unlink':
        for f in files: os.unlink(f)
    elif kind=='steps':
        for f in files:
            fd=os.open(f,os.O_WRONLY); n=os.fstat(fd).st_size
            while n>0:
                n=max(0,n-(32<<20)); os.ftruncate(fd,n); time.sleep(0.02)
            os.close(fd); os.unlink(f)
    elif kind.startswith('duty'):
        step=int(kind[4:])<<20
        for f in files:
            fd=os.open(f,os.O_WRONLY); n=os.fstat(fd).st_size; os.unlink(f)
            while n>0:
                n=max(0,n-step); w=time.monotonic(); os.ftruncate(fd,n); time.sleep(min(time.monotonic()-w,0.01)+0.0005)
            os.close(fd)
    b=time.monotonic(); time.sleep(1.5); stop.set(); [t.join() for t in ts]
    for f in files:
        if os.path.exists(f): os.unlink(f)
    alll=lats[0]+lats[1]
    pre=[l for w,l in alll if w<a]; dur=[l for w,l in alll if a-0.02<=w<=b+0.3]
    q=lambda x,p: sorted(x)[int(len(x)*p)]*1e3
    print(kind,f"deletion {1e3*(b-a):.0f} ms; write ms before p50 {q(pre,.5):.1f} max {max(pre)*1e3:.1f}; during p50 {q(dur,.5):.1f} p95 {q(dur,.95):.1f} max {max(dur)*1e3:.1f}",flush=True)
for k in ('none','unlink','duty8','duty16','duty32')*3: run(k)
