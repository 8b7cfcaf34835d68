//! The scene of the simulated sensors. Cheap to draw: the machine is to be busy with recording.

/// Columns of an image.
pub const WIDTH: usize = 1920;
/// Rows of an image.
pub const HEIGHT: usize = 1080;
const ROW_BYTES: usize = WIDTH * 3;
/// Bytes of an image, `rgb8`.
pub const FRAME_BYTES: usize = ROW_BYTES * HEIGHT;

/// Rows of the bar that moves down the picture.
const BAR_ROWS: usize = 40;
/// Rows that it moves from one frame to the next.
const BAR_SPEED: usize = 12;

/// A picture with a moving bar. The static part is drawn once into every slot.
pub struct Camera {
    still: Vec<u8>,
    bar: Vec<u8>,
    /// Top row of the bar in every slot; `None` before the first frame.
    drawn: Vec<Option<usize>>,
}

impl Camera {
    /// Camera `number`, whose stream has `slots` slots.
    pub fn new(number: u32, slots: u32) -> Self {
        let blue = (number * 30) as u8;
        let mut still = Vec::with_capacity(FRAME_BYTES);
        for y in 0..HEIGHT {
            let green = (y * 255 / HEIGHT) as u8;
            still.extend((0..WIDTH).flat_map(|x| [(x * 255 / WIDTH) as u8, green, blue]));
        }
        let bar = (0..WIDTH).flat_map(|x| [255, 255 - (x * 255 / WIDTH) as u8, 64]).collect();
        Self { still, bar, drawn: vec![None; slots as usize] }
    }

    /// Draws frame `sequence` over the frame that this camera drew into the same slot before.
    pub fn draw(&mut self, sequence: u64, frame: &mut [u8]) {
        let slot = (sequence % self.drawn.len() as u64) as usize;
        match self.drawn[slot] {
            None => frame[..FRAME_BYTES].copy_from_slice(&self.still),
            Some(top) => {
                let rows = top * ROW_BYTES..(top + BAR_ROWS) * ROW_BYTES;
                frame[rows.clone()].copy_from_slice(&self.still[rows]);
            }
        }
        let top = sequence as usize * BAR_SPEED % (HEIGHT - BAR_ROWS);
        for row in frame[top * ROW_BYTES..][..BAR_ROWS * ROW_BYTES].chunks_exact_mut(ROW_BYTES) {
            row.copy_from_slice(&self.bar);
        }
        self.drawn[slot] = Some(top);
    }
}

/// Lasers of the LiDAR.
pub const RINGS: usize = 64;
/// Measurements of each in a turn.
pub const STEPS: usize = 1024;
const POINT_BYTES: usize = 16;
/// Bytes of a scan: x, y, z, intensity.
pub const SCAN_BYTES: usize = RINGS * STEPS * POINT_BYTES;

/// Steps that the object before the wall covers, and that it moves from one scan to the next.
const OBJECT_STEPS: usize = 48;
const OBJECT_SPEED: usize = 16;

/// A round wall with an object going around before it.
pub struct Lidar {
    wall: Vec<u8>,
}

impl Lidar {
    pub fn new() -> Self {
        let mut wall = Vec::with_capacity(SCAN_BYTES);
        for ring in 0..RINGS {
            for step in 0..STEPS {
                wall.extend_from_slice(&point(ring, step, 20.0, 0.2));
            }
        }
        Self { wall }
    }

    /// Draws scan `sequence`.
    pub fn draw(&self, sequence: u64, scan: &mut [u8]) {
        scan[..SCAN_BYTES].copy_from_slice(&self.wall);
        let first = sequence as usize * OBJECT_SPEED;
        for ring in 0..RINGS {
            for step in (first..first + OBJECT_STEPS).map(|step| step % STEPS) {
                let at = (ring * STEPS + step) * POINT_BYTES;
                scan[at..at + POINT_BYTES].copy_from_slice(&point(ring, step, 6.0, 0.9));
            }
        }
    }
}

/// A point in `distance` metres.
fn point(ring: usize, step: usize, distance: f32, intensity: f32) -> [u8; POINT_BYTES] {
    let around = step as f32 / STEPS as f32 * std::f32::consts::TAU;
    // From 25 degrees below to 15 above the horizon.
    let up = (ring as f32 / RINGS as f32 * 40.0 - 25.0).to_radians();
    let values = [
        distance * around.cos() * up.cos(),
        distance * around.sin() * up.cos(),
        distance * up.sin(),
    ];
    let mut bytes = [0; POINT_BYTES];
    for (place, value) in bytes.chunks_exact_mut(4).zip(values.into_iter().chain([intensity])) {
        place.copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

/// `sensor_msgs/msg/Imu` in CDR: at rest, swaying a little.
pub fn imu_message(stamp_nanos: u64, sequence: u64) -> Vec<u8> {
    let mut message = vec![0, 1, 0, 0];
    message.extend_from_slice(&((stamp_nanos / 1_000_000_000) as i32).to_le_bytes());
    message.extend_from_slice(&((stamp_nanos % 1_000_000_000) as u32).to_le_bytes());
    message.extend_from_slice(&4u32.to_le_bytes());
    message.extend_from_slice(b"imu\0");
    let sway = (sequence as f64 / 200.0).sin() * 0.05;
    let covariance = |variance: f64| {
        let mut matrix = [0.0; 9];
        (matrix[0], matrix[4], matrix[8]) = (variance, variance, variance);
        matrix
    };
    let mut put = |values: &[f64]| {
        values.iter().for_each(|value| message.extend_from_slice(&value.to_le_bytes()));
    };
    put(&[(sway / 2.0).sin(), 0.0, 0.0, (sway / 2.0).cos()]);
    put(&covariance(1e-4));
    put(&[sway, 0.0, 0.0]);
    put(&covariance(1e-5));
    put(&[0.0, 9.81 * sway.sin(), 9.81 * sway.cos()]);
    put(&covariance(1e-3));
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_drawn_over_an_older_one_is_the_same_as_a_fresh_one() {
        let mut slots = vec![vec![0; FRAME_BYTES]; 2];
        let mut camera = Camera::new(3, 2);
        for sequence in 1..8 {
            let frame = &mut slots[(sequence % 2) as usize];
            camera.draw(sequence, frame);
            let mut fresh = vec![0; FRAME_BYTES];
            Camera::new(3, 2).draw(sequence, &mut fresh);
            assert!(*frame == fresh, "frame {sequence}");
        }
    }

    #[test]
    fn messages_have_the_sizes_that_their_definitions_say() {
        assert_eq!(imu_message(1_500_000_000, 7).len(), 4 + 16 + 37 * 8);
        let mut scan = vec![0; SCAN_BYTES];
        Lidar::new().draw(1, &mut scan);
        let x = f32::from_le_bytes([scan[0], scan[1], scan[2], scan[3]]);
        assert!((x - 20.0 * (-25f32).to_radians().cos()).abs() < 1e-3, "the wall: {x}");
    }
}
