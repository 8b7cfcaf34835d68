//! The player compared with a model, with the same commands.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Op {
    Pause,
    Resume,
    Toggle,
    Burst(u64),
    Rate(f64),
    Time(u64),
    Offset(u64),
    Nothing,
}

/// One operation after every message; while paused, one at every look.
fn model(times: &[u64], ops: &[Op], repeat: bool, start_paused: bool) -> Vec<usize> {
    let mut ops = ops.iter();
    let (mut next, mut paused, mut burst) = (0, start_paused, 0);
    let mut played = Vec::new();
    loop {
        if !(paused && burst == 0) {
            if next == times.len() && repeat {
                next = 0;
            } else if next == times.len() && !paused {
                return played;
            } else if next == times.len() {
                burst = 0;
                continue;
            }
            played.push(next);
            next += 1;
            burst = u64::saturating_sub(burst, 1);
        }
        let Some(op) = ops.next() else { return played };
        let seek = |nanos: u64| {
            let nanos = nanos.clamp(times[0], times[times.len() - 1]);
            times.partition_point(|&time| time < nanos)
        };
        match *op {
            Op::Pause => paused = true,
            Op::Resume => (paused, burst) = (false, 0),
            Op::Toggle if paused => (paused, burst) = (false, 0),
            Op::Toggle => paused = true,
            Op::Burst(count) if paused => burst += count,
            Op::Time(nanos) => (next, burst) = (seek(nanos), 0),
            Op::Offset(nanos) => (next, burst) = (seek(times[0] + nanos), 0),
            Op::Burst(_) | Op::Rate(_) | Op::Nothing => {}
        }
    }
}

fn tell(control: &PlayControl, op: Op) {
    match op {
        Op::Pause => control.pause(),
        Op::Resume => control.resume(),
        Op::Toggle => control.toggle(),
        Op::Burst(count) => control.burst(count),
        Op::Rate(rate) => control.set_rate(rate).unwrap(),
        Op::Time(nanos) => control.seek(PlaySeek::Time(nanos)),
        Op::Offset(nanos) => control.seek(PlaySeek::Offset(Duration::from_nanos(nanos))),
        Op::Nothing => control.burst(0),
    }
}

fn real(player: &mut Player, ops: &[Op]) -> PlayStatus {
    let (control, mut ops) = (player.control(), ops.iter());
    // After an order the player calls once to say that it has followed.
    let (mut is_told, mut messages) = (false, 0);
    let mut look = |status: &PlayStatus| {
        let is_new = status.messages != messages;
        messages = status.messages;
        if std::mem::take(&mut is_told) || !(is_new || status.paused) {
            return;
        }
        match ops.next() {
            Some(&op) => tell(&control, op),
            None => control.stop(),
        }
        is_told = true;
    };
    player.run(&mut look).unwrap()
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        2 => Just(Op::Pause),
        2 => Just(Op::Resume),
        2 => Just(Op::Toggle),
        3 => (0u64..5).prop_map(Op::Burst),
        2 => (0.1f64..10.0).prop_map(Op::Rate),
        2 => (0u64..2_000).prop_map(|ms| Op::Time(ms * 1_000_000)),
        2 => (0u64..2_000).prop_map(|ms| Op::Offset(ms * 1_000_000)),
        5 => Just(Op::Nothing),
    ];
    proptest::collection::vec(op, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_is_published_is_what_the_model_says(
        steps in proptest::collection::vec(0u64..100, 1..30),
        ops in ops(),
        repeat: bool,
        start_paused: bool,
        is_foreign: bool,
        ahead_messages in 1usize..8,
    ) {
        let times: Vec<u64> = steps
            .iter()
            .scan(SECOND, |time, step| { *time += step * 1_000_000; Some(*time) })
            .collect();
        let folder = counted(&times);
        let mut path = folder.path().join("bag");
        let container = path.clone();
        if is_foreign {
            path = Listed::file_in(folder.path());
        }
        let options = PlayOptions {
            repeat, start_paused, ahead_messages, lead_in: Duration::ZERO, ..simulated()
        };
        let mut kept = Kept::new(&options);
        let open = move |_: &Path| Ok(Playable::Source(Box::new(Listed::of(&container))));
        let mut player = Player::open_with(&[path], options, &mut kept, open).unwrap();
        let status = real(&mut player, &ops);
        let played: Vec<_> = kept.take().iter().map(|played| usize::from(played.data[0])).collect();
        prop_assert_eq!(&played, &model(&times, &ops, repeat, start_paused));
        prop_assert_eq!(status.messages, played.len() as u64);
        prop_assert_eq!(status.late_max, Duration::ZERO, "time flows only while there is something");
    }
}
