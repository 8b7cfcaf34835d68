import sys, zstandard
from rosbags.highlevel import AnyReader
from pathlib import Path
for bag in ["do.bag","outdoor.bag"]:
    with AnyReader([Path("/work/shared/data")/bag]) as r:
        msgs=[(c.topic,c.msgtype,bytes(raw)) for c,t,raw in r.messages()]
    from collections import Counter, defaultdict
    by=defaultdict(list)
    for t,ty,m in msgs: by[t].append(m)
    tot=sum(len(m) for _,_,m in msgs)
    print(bag, tot/1e6, {t:(len(v), len(v[0]), len(set(v))) for t,v in by.items()})
    for level in (1,3):
        c=zstandard.ZstdCompressor(level=level)
        alone=sum(len(c.compress(m)) for _,_,m in msgs)
        def chunks(seq, size):
            out=0; cur=b''
            for m in seq:
                cur+=m
                if len(cur)>size: out+=len(c.compress(cur)); cur=b''
            return out+(len(c.compress(cur)) if cur else 0)
        mix=chunks([m for _,_,m in msgs], 786432)
        own=sum(chunks(v, 786432) for v in by.values())
        own4=sum(chunks(v, 4<<20) for v in by.values())
        loop=chunks([m for _,_,m in msgs]*6, 786432)
        print(level,"alone",tot/alone,"crate chunks mixed",tot/mix,"own topic 768K",tot/own,"own 4M",tot/own4,"looped x6 mixed",6*tot/loop)
