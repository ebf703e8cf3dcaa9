//! Both ends of a measurement: `measure send|receive PIPELINE FILE` runs a pipeline with a sink or
//! source named `squall` and writes a line per buffer: hash, time by the system's clock in µs,
//! bytes; and, at the sender, one per change of the estimated bitrate. Both ends must run on one
//! machine, because they share the clock. The time of the sender is that at which the picture was
//! captured.

use std::{
    fs::File,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{BufWriter, Write as _},
    sync::{Arc, Mutex},
};

use gstreamer::{self as gst, prelude::*};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [role, description, file] = &arguments[..] else {
        return Err("measure send|receive PIPELINE FILE".into());
    };
    let is_sender = role == "send";
    gst::init()?;
    gstsquall::plugin_register_static()?;
    let pipeline = gst::parse::launch(description)?;
    let element =
        pipeline.downcast_ref::<gst::Bin>().and_then(|bin| bin.by_name("squall")).ok_or("no 'squall'")?;
    let pad = element.static_pad(if is_sender { "sink" } else { "src" }).ok_or("no pad")?;
    let lines = Arc::new(Mutex::new(BufWriter::new(File::create(file)?)));
    let (written, timed) = (lines.clone(), element.clone());
    pad.add_probe(gst::PadProbeType::BUFFER, move |pad, info| {
        let Some(buffer) = info.buffer() else { return gst::PadProbeReturn::Ok };
        let now = timed.current_clock_time();
        let segment = pad.sticky_event::<gst::event::Segment>(0);
        let segment = segment.and_then(|event| event.segment().clone().downcast::<gst::ClockTime>().ok());
        let running = segment.and_then(|segment| segment.to_running_time(buffer.pts()));
        let captured = timed.base_time().zip(running).map(|(base, time)| base + time);
        let time = if is_sender { captured } else { now };
        let mut hasher = DefaultHasher::new();
        buffer.map_readable().map_or_else(|_| Vec::new(), |data| data.to_vec()).hash(&mut hasher);
        if let (Some(time), Ok(mut lines)) = (time, written.lock()) {
            let _ = writeln!(lines, "{:x} {} {}", hasher.finish(), time.useconds(), buffer.size());
        }
        gst::PadProbeReturn::Ok
    });
    let written = lines.clone();
    element.connect_notify(Some("estimated-bitrate"), move |sink, _| {
        let bitrate = sink.property::<u32>("estimated-bitrate");
        if let (Some(now), Ok(mut lines)) = (sink.current_clock_time(), written.lock()) {
            let _ = writeln!(lines, "# {} {bitrate}", now.useconds());
        }
    });
    pipeline.set_state(gst::State::Playing)?;
    let bus = pipeline.bus().ok_or("no bus")?;
    let messages = [gst::MessageType::Eos, gst::MessageType::Error];
    if let Some(message) = bus.timed_pop_filtered(gst::ClockTime::from_seconds(120), &messages) {
        eprintln!("{role}: {:?}", message.view());
    }
    eprintln!("{role}: {}", element.property::<gst::Structure>("stats"));
    pipeline.set_state(gst::State::Null)?;
    lines.lock().map_err(|_| "a probe panicked")?.flush()?;
    Ok(())
}
