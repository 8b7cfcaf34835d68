//! The livebag command.

fn main() {}
