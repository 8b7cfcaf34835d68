//! Commands to a player while it plays.

use super::*;
use crate::limits::{PLAY_ORDERS_MAX, PLAY_SLEEP_MAX};

/// Runs a player and does `act` once, as soon as `when` holds.
fn run_and(
    player: &mut Player,
    when: impl Fn(&PlayStatus) -> bool,
    act: impl Fn(&PlayControl),
) -> PlayStatus {
    let (control, mut is_done) = (player.control(), false);
    let status = player.run(&mut |status| {
        if !is_done && when(status) {
            is_done = true;
            act(&control);
        }
    });
    assert!(is_done);
    status.unwrap()
}

#[test]
fn a_pause_moves_what_comes_after_it_and_nothing_is_late() {
    let folder = counted(&[SECOND, 2 * SECOND, 3 * SECOND]);
    let (mut player, kept) = keeping(&folder, simulated());
    let (control, clock) = (player.control(), player.options.clock.clone());
    let (mut paused_nanos, mut resumed_nanos) = (0, 0);
    let status = player
        .run(&mut |status| {
            let now_nanos = clock.monotonic_nanos() - kept.start_nanos;
            if paused_nanos == 0 && now_nanos > SECOND + SECOND / 2 {
                paused_nanos = now_nanos;
                control.pause();
            } else if resumed_nanos == 0 && now_nanos > 5 * SECOND {
                assert!(status.paused);
                assert!(status.position < Duration::from_millis(1520), "{status:?}");
                resumed_nanos = now_nanos;
                control.toggle();
            }
        })
        .unwrap();
    let played = kept.bytes();
    assert_eq!(played[..2], [(0, 0), (SECOND, 1)]);
    // An order is followed after the sleep in which it came, at most.
    let slack = PLAY_SLEEP_MAX.as_nanos() as u64;
    let expected = 2 * SECOND + resumed_nanos - paused_nanos;
    assert!(played[2].0.abs_diff(expected) <= slack, "{played:?}, {expected}");
    assert_eq!((status.messages, status.late_max, status.paused), (3, Duration::ZERO, false));
}

#[test]
fn a_rate_holds_from_when_it_is_set() {
    let folder = counted(&[SECOND, 2 * SECOND, 3 * SECOND, 5 * SECOND]);
    let (mut player, kept) = keeping(&folder, simulated());
    let status = run_and(
        &mut player,
        |status| status.messages == 2,
        |control| control.set_rate(0.5).unwrap(),
    );
    assert_eq!(kept.bytes(), [(0, 0), (SECOND, 1), (3 * SECOND, 2), (7 * SECOND, 3)]);
    assert_eq!((status.rate, status.late_max), (0.5, Duration::ZERO));
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(player.control().set_rate(rate).is_err());
    }
}

#[test]
fn steps_publish_what_is_next_and_move_the_position() {
    let folder = counted(&[SECOND, 2 * SECOND, 3 * SECOND, 4 * SECOND]);
    let options = PlayOptions { start_paused: true, ..simulated() };
    let (mut player, kept) = keeping(&folder, options);
    let (control, mut steps) = (player.control(), 0);
    let mut seen = Vec::new();
    player
        .run(&mut |status| {
            if steps == 0 {
                control.step();
            } else if steps == 3 {
                control.burst(2);
            } else if steps == 6 {
                control.resume();
            }
            steps += 1;
            if seen.last() != Some(&(status.messages, status.position)) {
                seen.push((status.messages, status.position));
            }
        })
        .unwrap();
    let played = kept.bytes();
    assert_eq!(played.iter().map(|played| played.1).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(played[1].0, played[2].0, "a burst does not wait");
    assert!(played[3].0 - played[2].0 >= SECOND, "from the position of the last step");
    let at = |messages| seen.iter().find(|seen| seen.0 == messages).unwrap().1;
    assert_eq!(
        (at(1), at(2), at(3)),
        (Duration::ZERO, Duration::from_secs(1), Duration::from_secs(2))
    );
}

#[test]
fn a_player_that_runs_does_not_step() {
    let folder = counted(&[SECOND, 2 * SECOND, 3 * SECOND]);
    let (mut player, kept) = keeping(&folder, simulated());
    run_and(&mut player, |status| status.messages == 1, |control| control.burst(5));
    assert_eq!(kept.bytes(), [(0, 0), (SECOND, 1), (2 * SECOND, 2)]);
}

#[test]
fn it_goes_anywhere_and_on_from_there() {
    let times: Vec<u64> = (1..=10).map(|second| second * SECOND).collect();
    let folder = counted(&times);
    let places = [
        (PlaySeek::Time(8 * SECOND - 1), 7, 1),
        (PlaySeek::Time(u64::MAX), 9, 0),
        (PlaySeek::Time(0), 0, 0),
        (PlaySeek::Offset(Duration::from_millis(1500)), 2, SECOND / 2),
        (PlaySeek::Ahead(Duration::from_millis(1750)), 4, SECOND / 4),
        (PlaySeek::Back(Duration::from_millis(1750)), 1, 3 * SECOND / 4),
    ];
    for (place, next, after_nanos) in places {
        let (mut player, kept) = keeping(&folder, simulated());
        let status =
            run_and(&mut player, |status| status.messages == 3, |control| control.seek(place));
        let played = kept.bytes();
        let rest: Vec<u8> = [0, 1, 2].into_iter().chain(next..10).collect();
        assert_eq!(played.iter().map(|p| p.1).collect::<Vec<_>>(), rest, "{place:?}");
        assert_eq!(played[3].0, 2 * SECOND + after_nanos, "{place:?}");
        assert_eq!(status.late_max, Duration::ZERO);
    }
}

#[test]
fn a_paused_player_goes_and_stays_there() {
    let times: Vec<u64> = (1..=10).map(|second| second * SECOND).collect();
    let folder = counted(&times);
    let options = PlayOptions { start_paused: true, ..simulated() };
    let (mut player, kept) = keeping(&folder, options);
    let control = player.control();
    control.seek(PlaySeek::Offset(Duration::from_secs(6)));
    let mut looks = 0;
    player
        .run(&mut |status| {
            looks += 1;
            match looks {
                // Before the first command is executed, the status has it too.
                3 => {
                    assert!(status.paused && status.messages == 0);
                    assert_eq!(status.position, Duration::from_secs(6));
                    control.step();
                }
                10 => control.seek(PlaySeek::Back(Duration::from_secs(5))),
                20 => control.stop(),
                _ => {}
            }
        })
        .unwrap();
    assert_eq!(kept.bytes().iter().map(|p| p.1).collect::<Vec<_>>(), [6]);
    assert_eq!(control.status().position, Duration::from_secs(1));
}

#[test]
fn at_the_end_a_paused_player_waits() {
    let folder = counted(&[SECOND, 2 * SECOND]);
    let options = PlayOptions { start_paused: true, ..simulated() };
    let (mut player, kept) = keeping(&folder, options);
    let (control, mut looks) = (player.control(), 0);
    control.burst(7);
    let status = player
        .run(&mut |status| {
            looks += u32::from(status.messages == 2);
            match looks {
                5 => control.seek(PlaySeek::Offset(Duration::ZERO)),
                10 => control.resume(),
                _ => {}
            }
        })
        .unwrap();
    assert_eq!(kept.bytes().iter().map(|p| p.1).collect::<Vec<_>>(), [0, 1, 0, 1]);
    assert_eq!(status.rounds, 1);
}

#[test]
fn orders_without_end_are_left_out() {
    let control = PlayControl::default();
    (0..2 * PLAY_ORDERS_MAX).for_each(|_| control.step());
    assert_eq!(std::iter::from_fn(|| control.next_order()).count(), PLAY_ORDERS_MAX);
}

/// In real time: an order is followed although the next message is an hour away.
#[test]
fn it_is_stopped_in_a_long_gap() {
    let folder = counted(&[SECOND, 3600 * SECOND]);
    let (mut player, kept) = keeping(&folder, PlayOptions::default());
    let control = player.control();
    let thread = std::thread::Builder::new().name("player".into());
    let thread = thread.spawn(move || player.run(&mut |_| {})).unwrap();
    while control.status().messages == 0 {
        std::thread::yield_now();
    }
    control.stop();
    let status = thread.join().unwrap().unwrap();
    assert_eq!((status.messages, kept.take().len()), (1, 1));
    assert!(status.position < Duration::from_secs(3000));
}
