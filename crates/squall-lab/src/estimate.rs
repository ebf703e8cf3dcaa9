//! Means of several seeds, and how far off they may be.

use serde::{Deserialize, Serialize};

use crate::summary::student_t;

/// A mean and how far off it may be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half of its 95 % confidence interval, by Student's t; none for one value.
    pub half: Option<f64>,
}

impl Estimate {
    /// Of these values; none if there is none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        match values.len() {
            0 => None,
            1 => Some(Self { mean, half: None }),
            n => {
                let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
                let error = (squares / (count - 1.0) / count).sqrt();
                Some(Self { mean, half: Some(student_t(n - 1) * error) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_follow_student() {
        let estimate = Estimate::of(&[1.0, 2.0, 3.0]).expect("has values");
        assert!((estimate.mean - 2.0).abs() < 1e-9);
        assert!((estimate.half.expect("has three") - 2.484).abs() < 1e-3, "4.303 × 1 / √3");
        assert_eq!(Estimate::of(&[5.0]), Some(Estimate { mean: 5.0, half: None }));
        assert_eq!(Estimate::of(&[]), None);
    }
}
