//! Calls services as `rmw_cyclonedds` does: requests and replies begin with 16 bytes that identify the client and
//! number its requests. (`rmw_fastrtps` sends the same in an RTPS parameter of each message, which Cyclone DDS can
//! neither write nor read; ROS 2's own clients do not reach over that, either.)

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use super::cyclone::{ENCAPSULATION_BYTES, Participant, Taken, Taker, TopicNames};
use super::{failed, names};
use crate::limits::{ANSWERS_MAX, SERVER_POLL};
use crate::network::{EndpointId, NetworkError, ServiceRequest, check_name, check_type_name};
use crate::qos::Qos;

/// `cdds_request_header_t`: a client's 64 bits, and the number of its request.
const HEADER_BYTES: usize = 16;
/// A client lives for one request.
const REQUEST: u64 = 1;

/// Takes answers, and drops them while too many wait.
struct Answers(SyncSender<Vec<u8>>);

impl Taker for Answers {
    fn take(&self, message: &Taken<'_>) {
        let _ = self.0.try_send(message.data.to_vec());
    }

    fn refuse(&self) {}
}

/// Calls and waits for the answer.
pub fn call(
    participant: &Arc<Participant>,
    service: &ServiceRequest<'_>,
    request: &[u8],
    within: Duration,
) -> Result<Vec<u8>, NetworkError> {
    let name = service.name;
    check_name(name)?;
    check_type_name(service.type_name)?;
    let wrong = |reason: String| failed("calling", name, reason);
    let no_answer = || NetworkError::NoAnswer { service: name.to_owned(), within };
    let Some((encapsulation, body)) = request.split_at_checked(ENCAPSULATION_BYTES) else {
        return Err(wrong(format!("a request of {} bytes has no encapsulation", request.len())));
    };
    let (requests, replies) = names::service(name);
    let request_type = names::type_name(service.type_name, "_Request");
    let reply_type = names::type_name(service.type_name, "_Response");
    let (sender, answers) = sync_channel(ANSWERS_MAX);
    let refused = |refusal: super::cyclone::Refusal| wrong(refusal.to_string());

    // The server waits with its answer until it knows the reader that says the same.
    let said = client_id(participant.id());
    let qos = Qos::default();
    let taker = Arc::new(Answers(sender));
    let reader = participant
        .read(&TopicNames::new(&replies, &reply_type), &qos, said.as_bytes(), taker)
        .map_err(refused)?;
    let writer = participant
        .write(&TopicNames::new(&requests, &request_type), &qos, said.as_bytes())
        .map_err(refused)?;

    let mut left = within;
    while writer.readers() == 0 || reader.writers() == 0 {
        left = left.checked_sub(SERVER_POLL).ok_or_else(no_answer)?;
        std::thread::sleep(SERVER_POLL);
    }
    let client = client_number(writer.id());
    let header = header(encapsulation, client);
    writer.write(&[encapsulation, &header, body].concat()).map_err(refused)?;
    loop {
        let answer = match answers.recv_timeout(left) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                return Err(no_answer());
            }
        };
        if let Some(answer) = answer_to(client, &answer) {
            return Ok(answer);
        }
        // Another client's answers; they must not keep this call waiting forever.
        left = left.checked_sub(SERVER_POLL).ok_or_else(no_answer)?;
    }
}

/// What both endpoints of a client say freely, so that servers know that they belong together.
fn client_id(participant: EndpointId) -> String {
    static CLIENTS: AtomicU64 = AtomicU64::new(0);
    let mut id = participant;
    for (byte, of_count) in
        id[8..].iter_mut().zip(CLIENTS.fetch_add(1, Ordering::Relaxed).to_be_bytes())
    {
        *byte ^= of_count;
    }
    let [first, rest @ ..] = id;
    let rest: String = rest.iter().map(|byte| format!(".{byte:x}")).collect();
    format!("clientid= {first:02x}{rest};")
}

/// The client's identification in each request.
fn client_number(writer: EndpointId) -> u64 {
    let half = |at: usize| {
        writer[at..].first_chunk().map_or(0, |bytes: &[u8; 8]| u64::from_be_bytes(*bytes))
    };
    half(0).rotate_left(17) ^ half(8)
}

fn is_little_endian(encapsulation: &[u8]) -> bool {
    encapsulation.get(1).is_some_and(|byte| byte & 1 == 1)
}

fn header(encapsulation: &[u8], client: u64) -> [u8; HEADER_BYTES] {
    let words = [client, REQUEST].map(|word| match is_little_endian(encapsulation) {
        true => word.to_le_bytes(),
        false => word.to_be_bytes(),
    });
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&words[0]);
    header[8..].copy_from_slice(&words[1]);
    header
}

/// The answer without its header, if it is one to that client.
fn answer_to(client: u64, answer: &[u8]) -> Option<Vec<u8>> {
    let (encapsulation, rest) = answer.split_at_checked(ENCAPSULATION_BYTES)?;
    let body = rest.strip_prefix(&header(encapsulation, client))?;
    Some([encapsulation, body].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_known_by_its_header_in_either_byte_order() {
        for encapsulation in [[0, 0, 0, 0], [0, 1, 0, 0]] {
            let answer = [&encapsulation[..], &header(&encapsulation, 77), b"body"].concat();
            let expected = [&encapsulation[..], b"body"].concat();
            assert_eq!(answer_to(77, &answer), Some(expected));
            assert_eq!(answer_to(78, &answer), None);
            for len in 0..ENCAPSULATION_BYTES + HEADER_BYTES {
                assert_eq!(answer_to(77, &answer[..len]), None);
            }
        }
    }

    #[test]
    fn each_client_says_another_identity() {
        let (first, second) = (client_id([3; 16]), client_id([3; 16]));
        assert_ne!(first, second);
        assert!(first.starts_with("clientid= 03.3.3") && first.ends_with(';'), "{first}");
    }
}
