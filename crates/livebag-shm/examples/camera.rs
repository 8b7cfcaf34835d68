//! A camera driver: publishes images of a moving bar at 30 Hz, filled in place in shared memory.
//!
//! ```sh
//! cargo run -p livebag-shm --example camera -- camera_front
//! ```

use std::time::Duration;

use livebag_shm::{FrameMeta, StreamOptions, Writer};

const WIDTH: u32 = 640;
const HEIGHT: u32 = 480;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "camera_front".to_owned());
    let meta = FrameMeta::image(WIDTH, HEIGHT, WIDTH, "mono8").frame_id("camera_optical");
    let options = StreamOptions::image(WIDTH, HEIGHT, 1).remove_on_drop(true);
    let mut writer = Writer::create(&name, &options)?;
    let (row_bytes, image_bytes) = (WIDTH as usize, (WIDTH * HEIGHT) as usize);
    let mut number = 0;
    loop {
        let mut loan = writer.loan();
        for row in loan.payload_mut()[..image_bytes].chunks_mut(row_bytes) {
            row.fill(16);
            row[number % row_bytes] = 235;
        }
        loan.publish(&meta, image_bytes)?;
        number += 1;
        std::thread::sleep(Duration::from_millis(33));
    }
}
