//! livebag beside its peers: streams, recording, query.

fn main() {}
