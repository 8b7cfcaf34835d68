//! Statistics of pictures: how often each channel has each value.

use super::stats::{Figures, QUANTILES};

/// Of some pictures of 8 bits and three channels.
#[derive(Clone)]
pub struct Colours {
    /// Pictures.
    count: u64,
    channels: [[u64; 256]; 3],
}

impl Default for Colours {
    fn default() -> Self {
        Self { count: 0, channels: [[0; 256]; 3] }
    }
}

impl Colours {
    /// Every how manieth picture of an episode is counted: about as many as LeRobot takes, at least 100.
    pub fn every(length: u64) -> u64 {
        ((length as f64).powf(0.25) as u64).clamp(1, (length / 100).max(1))
    }

    /// Adds a picture: red, green and blue of each pixel.
    pub fn add(&mut self, pixels: &[u8]) {
        self.count += 1;
        for pixel in pixels.as_chunks::<3>().0 {
            for (channel, value) in self.channels.iter_mut().zip(pixel) {
                channel[usize::from(*value)] += 1;
            }
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        for (mine, theirs) in self.channels.iter_mut().zip(&other.channels) {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
        }
    }

    /// Three numbers each, from 0 to 1.
    pub fn figures(&self) -> Figures {
        let of = |figure: &dyn Fn(&[u64; 256]) -> f64| {
            self.channels.iter().map(|channel| figure(channel) / 255.0).collect::<Vec<_>>()
        };
        let mut values = vec![
            ("min", of(&|channel| channel.iter().position(|count| *count > 0).unwrap_or(0) as f64)),
            (
                "max",
                of(&|channel| channel.iter().rposition(|count| *count > 0).unwrap_or(0) as f64),
            ),
            ("mean", of(&|channel| moments(channel).0)),
            ("std", of(&|channel| moments(channel).1)),
        ];
        values.extend(QUANTILES.map(|(name, part)| (name, of(&|channel| quantile(channel, part)))));
        Figures { count: self.count, values }
    }
}

/// Mean and standard deviation.
fn moments(channel: &[u64; 256]) -> (f64, f64) {
    let pixels = channel.iter().sum::<u64>().max(1) as f64;
    let mean_of = |figure: &dyn Fn(f64) -> f64| {
        let values = channel.iter().enumerate();
        values.map(|(value, count)| figure(value as f64) * *count as f64).sum::<f64>() / pixels
    };
    let mean = mean_of(&|value| value);
    (mean, mean_of(&|value| (value - mean) * (value - mean)).sqrt())
}

/// Between the two nearest values, as NumPy does.
fn quantile(channel: &[u64; 256], part: f64) -> f64 {
    let at = part * channel.iter().sum::<u64>().saturating_sub(1) as f64;
    let ranked = |rank: f64| {
        let mut seen = 0;
        let value = channel.iter().position(|count| {
            seen += count;
            seen as f64 > rank
        });
        value.unwrap_or(0) as f64
    };
    ranked(at.floor()) + (ranked(at.ceil()) - ranked(at.floor())) * at.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_all_pixels_added_at_once_or_in_parts() {
        // Red 0, 1, … 255; green always 51; blue 0 and 255.
        let pixels: Vec<u8> =
            (0..=255).flat_map(|red| [red, 51, if red < 128 { 0 } else { 255 }]).collect();
        let mut whole = Colours::default();
        whole.add(&pixels);
        let mut parts = Colours::default();
        for part in pixels.chunks(3 * 64) {
            let mut colours = Colours::default();
            colours.add(part);
            parts.merge(&colours);
        }
        assert_eq!((whole.figures().count, parts.figures().count), (1, 4));
        let (values, of_parts) = (whole.figures().values, parts.figures().values);
        assert_eq!(format!("{values:?}"), format!("{of_parts:?}"));
        let close = |name: &str, wanted: [f64; 3]| {
            let (_, found) = values.iter().find(|(known, _)| *known == name).unwrap();
            assert!(
                found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-9),
                "{name}: {found:?}"
            );
        };
        close("min", [0.0, 0.2, 0.0]);
        close("max", [1.0, 0.2, 1.0]);
        close("mean", [0.5, 0.2, 0.5]);
        close("std", [(65535.0_f64 / 12.0).sqrt() / 255.0, 0.0, 0.5]);
        close("q50", [0.5, 0.2, 0.5]);
        close("q10", [0.1, 0.2, 0.0]);
        assert_eq!([1, 50, 500, 10_000, 1 << 40].map(Colours::every), [1, 1, 4, 10, 1024]);
    }
}
