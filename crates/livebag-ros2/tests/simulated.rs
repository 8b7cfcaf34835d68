//! The simulated network keeps the promises of all networks.

mod conformance;

use livebag::Clock;
use livebag_ros2::network::{Network, SimulatedHub};

fn check(check: fn(conformance::Join<'_>)) {
    let hub = SimulatedHub::new(Clock::system());
    check(&|node: &str| -> Box<dyn Network> { Box::new(hub.join(node)) });
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
