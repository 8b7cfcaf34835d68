//! Gives the shared library its name, so that programs find it wherever the loader looks.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,liblivebag_c.so");
}
