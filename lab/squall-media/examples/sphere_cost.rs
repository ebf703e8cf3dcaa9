//! Measures the cost of generating a 360° film, and its quality.
//!
//! ```text
//! cargo run --release -p squall-media --example sphere_cost [WIDTH HEIGHT MBPS]
//! ```

use std::error::Error;
use std::time::Instant;

use squall_media::sphere::{Coded, Sphere, SphereConfig};

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<u32> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let [width, height, mbps] = given[..] else { return measure(1920, 960, 40) };
    measure(width, height, mbps)
}

fn measure(width: u32, height: u32, mbps: u32) -> Result<(), Box<dyn Error>> {
    let full = u64::from(mbps) * 1_000_000 / 8 / 30;
    let config = SphereConfig {
        width,
        height,
        columns: 12,
        rows: 6,
        pictures: 60,
        picture_bytes: vec![full, full / 2, full / 10],
        seed: 1,
    };
    let start = Instant::now();
    let sphere = Sphere::make(&config)?;
    println!("{width}x{height} at {mbps} Mbps, 60 pictures: made in {:.1?}", start.elapsed());
    for quality in 0..3 {
        let start = Instant::now();
        let pairs = || (0..60).flat_map(|picture| (0..72).map(move |tile| (picture, tile)));
        let likeness =
            pairs().map(|(picture, tile)| sphere.likeness(Some(Coded { quality, picture }), picture, tile));
        let (error, ssim) =
            likeness.fold((0.0, 0.0), |sum, l| (sum.0 + l.mean_squared_error, sum.1 + l.ssim));
        let count = pairs().count() as f64;
        let sizes = pairs().map(|(picture, tile)| sphere.size(Coded { quality, picture }, tile));
        let (quantiser, padding) = sphere.quantiser(quality);
        println!(
            "quality {quality}: quantiser {quantiser}, padding {:.1} %, tiles of {} to {} bytes, PSNR {:.2} dB, SSIM {:.4}, judged in {:.1?}",
            (padding - 1.0) * 100.0,
            sizes.clone().min().unwrap_or(0),
            sizes.max().unwrap_or(0),
            squall_media::quality::psnr_of(error / count),
            ssim / count,
            start.elapsed()
        );
    }
    Ok(())
}
