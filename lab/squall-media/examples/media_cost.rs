//! Measures the cost of drawing, encoding, decoding and comparing a frame, and the resulting rates.
//!
//! ```text
//! cargo run --release -p squall-media --example media_cost [FRAMES]
//! ```

use std::error::Error;
use std::time::{Duration, Instant};

use squall_media::{Decoder, Encoder, EncoderConfig, FrameKind, Scene, quality};

fn main() -> Result<(), Box<dyn Error>> {
    let frames = std::env::args().nth(1).map_or(Ok(120), |text| text.parse::<u64>())?;
    println!("{frames} frames each, 30 frames/s, key frame every 30");
    println!(
        "{:>10} {:>7} {:>8} {:>7} {:>7} {:>7} {:>7} {:>9} {:>9} {:>7} {:>7}",
        "size",
        "target",
        "reached",
        "scene",
        "encode",
        "worst",
        "decode",
        "compare",
        "key/mean",
        "PSNR",
        "min"
    );
    for (width, height) in [(640, 360), (1280, 720), (1920, 1080)] {
        for mbps in [4, 8, 12, 20, 25] {
            measure(&config(width, height, mbps), frames)?;
        }
    }
    println!("with every second frame disposable:");
    for (width, height) in [(1280, 720), (1920, 1080)] {
        for mbps in [8, 20] {
            measure(&EncoderConfig { disposable: true, ..config(width, height, mbps) }, frames)?;
        }
    }
    println!("times in ms a frame; rates in Mbps; PSNR of luma in dB");
    Ok(())
}

fn config(width: u32, height: u32, mbps: u32) -> EncoderConfig {
    EncoderConfig { width, height, bitrate_bps: mbps * 1_000_000, ..Default::default() }
}

fn measure(config: &EncoderConfig, frames: u64) -> Result<(), Box<dyn Error>> {
    let (width, height, mbps) = (config.width, config.height, config.bitrate_bps / 1_000_000);
    let scene = Scene::new(width, height, 1)?;
    let mut encoder = Encoder::new(config.clone())?;
    let mut decoder = Decoder::new()?;
    let [mut scene_time, mut encode_time, mut decode_time, mut compare_time] = [Duration::ZERO; 4];
    let (mut worst, mut bytes, mut keys, mut key_bytes) = (Duration::ZERO, 0, 0, 0);
    let (mut sum, mut minimum) = (0.0, f64::MAX);
    for index in 0..frames {
        let start = Instant::now();
        let picture = scene.render(index);
        let drawn = Instant::now();
        let frame = encoder.encode(&picture, false)?;
        let encoded = Instant::now();
        let decoded = decoder.decode(&frame.data)?.ok_or("no picture")?;
        let ready = Instant::now();
        let psnr = quality::likeness(&picture, &decoded)?.psnr();
        compare_time += ready.elapsed();
        decode_time += ready - encoded;
        encode_time += encoded - drawn;
        scene_time += drawn - start;
        worst = worst.max(encoded - drawn);
        bytes += frame.data.len();
        if frame.kind == FrameKind::Key {
            keys += 1;
            key_bytes += frame.data.len();
        }
        sum += psnr;
        minimum = psnr.min(minimum);
    }
    let count = frames as f64;
    let cost = |time: Duration| time.as_secs_f64() * 1000.0 / count;
    println!(
        "{:>10} {mbps:>7} {:>8.2} {:>7.2} {:>7.2} {:>7.2} {:>7.2} {:>9.2} {:>9.2} {:>7.2} {minimum:>7.2}",
        format!("{width}x{height}"),
        bytes as f64 * 8.0 * 30.0 / count / 1e6,
        cost(scene_time),
        cost(encode_time),
        worst.as_secs_f64() * 1000.0,
        cost(decode_time),
        cost(compare_time),
        (key_bytes as f64 / f64::from(keys)) / (bytes as f64 / count),
        sum / count,
    );
    Ok(())
}
