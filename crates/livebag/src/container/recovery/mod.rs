//! Repair of a container: what was committed is kept, and its files are ended.

pub(super) mod after_crash;
mod after_power_loss;
pub(super) mod manifest;

pub(crate) use after_crash::read_owner;
pub(crate) use after_power_loss::says_the_same;
