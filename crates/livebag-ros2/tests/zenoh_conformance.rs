//! ROS 2 over Zenoh keeps the promises of all networks.
#![cfg(feature = "zenoh")]

use std::cell::Cell;

use livebag_ros2::network::Network;

mod conformance;
mod zenoh_common;

fn check(check: fn(conformance::Join<'_>)) {
    let place = zenoh_common::Place::new();
    let is_first = Cell::new(true);
    check(&|node: &str| -> Box<dyn Network> {
        let options = match is_first.replace(false) {
            true => place.listening(),
            false => place.connecting(),
        };
        Box::new(zenoh_common::join(&options, node))
    });
}

#[test]
fn the_graph_shows_who_is_there() {
    check(conformance::the_graph_shows_who_is_there);
}

#[test]
fn bytes_come_as_they_were_published_and_in_order() {
    check(conformance::bytes_come_as_they_were_published_and_in_order);
}

#[test]
fn latched_messages_reach_those_who_come_later() {
    check(conformance::latched_messages_reach_those_who_come_later);
}

#[test]
fn publishers_of_one_topic_are_told_apart() {
    check(conformance::publishers_of_one_topic_are_told_apart);
}

#[test]
fn what_is_dropped_is_over() {
    check(conformance::what_is_dropped_is_over);
}

#[test]
fn names_that_are_none_are_refused() {
    check(conformance::names_that_are_none_are_refused);
}
