//! The HTTP server as its askers meet it, friendly and hostile: one binary, so that it is linked once.
#![expect(clippy::disallowed_methods, reason = "tests look at files and clocks as users do")]

mod abuse;
mod access;
mod auto;
mod catalog;
mod client;
mod files;
mod fixture;
mod formats;
mod fuzz;
mod held;
mod idle;
mod in_place;
mod live;
mod over_time;
mod page;
mod process;
mod recipe;
mod routes;
mod traversal;
