//! The fuzzers' function on mutated seeds.

#[path = "../../../../fuzz/rounds.rs"]
mod rounds;

use rounds::run;

use super::*;

/// `rmw_dds_common/msg/ParticipantEntitiesInfo` of one node with a reader.
fn nodes() -> Vec<u8> {
    let mut cdr = vec![1, 0, 1, 0, 0];
    cdr.extend_from_slice(&[7; 16]);
    for part in [&b"\x01\0\0\0\x02\0\0\0/\0\0\0\x02\0\0\0n\0\0\0\x01\0\0\0"[..], &[9; 16], &[0; 4]]
    {
        cdr.extend_from_slice(part);
    }
    cdr
}

/// `GetTypeDescription_Response` with a source, as far as lengths go.
fn described() -> Vec<u8> {
    let mut cdr = vec![2, 0, 1, 0, 0];
    let word = |cdr: &mut Vec<u8>, value: u32| {
        cdr.resize((cdr.len() - 5).next_multiple_of(4) + 5, 0);
        cdr.extend_from_slice(&value.to_le_bytes());
    };
    let text = |cdr: &mut Vec<u8>, text: &str| {
        word(cdr, text.len() as u32 + 1);
        cdr.extend_from_slice(text.as_bytes());
        cdr.push(0);
    };
    cdr.push(1);
    text(&mut cdr, "");
    text(&mut cdr, "a_msgs/msg/A");
    word(&mut cdr, 0);
    word(&mut cdr, 0);
    word(&mut cdr, 1);
    for part in ["a_msgs/msg/A", "msg", "uint8 x"] {
        text(&mut cdr, part);
    }
    word(&mut cdr, 0);
    cdr
}

#[test]
fn what_nodes_tell_is_read_or_refused() {
    let token = "\0@ros2_lv/2/aac3178e146ba6f1fc6e6a4085e77f21/0/10/MP/%/%/talker/%chatter/\
                 std_msgs::msg::dds_::String_/RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18/\
                 ::,7:,:,:,,";
    let mut attachment = vec![0];
    attachment.extend_from_slice(&[5; 16]);
    attachment.push(16);
    attachment.extend_from_slice(&[9; 16]);
    let seeds: [&[u8]; 6] = [
        token.as_bytes(),
        &attachment,
        &nodes(),
        b"\x01rt/camera/image\0sensor_msgs::msg::dds_::Image_\0enclave=/;typehash=RIHS01_0a;",
        &described(),
        b"\x03/a:\n  reliability: best_effort\n  history: keep_last\n  depth: 5\n  deadline: {sec: 1, nsec: 5}\n",
    ];
    Described::parse("a_msgs/msg/A", &described()[1..]).expect("a seed that is one");
    run("discovery", discovery, 20_000, &seeds);
}
