//! Sends a test picture whose encoder follows the networks: `follow ADDRESS FINGERPRINT [PATHS]`.

use gstreamer::{self as gst, prelude::*};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, fingerprint, paths @ ..] = &arguments[..] else {
        return Err("follow ADDRESS FINGERPRINT [PATHS]".into());
    };
    gst::init()?;
    gstsquall::plugin_register_static()?;
    let pipeline = gst::parse::launch(&format!(
        "videotestsrc is-live=true pattern=ball ! x264enc name=coder tune=zerolatency ! \
         squallsink name=sink address={address} fingerprint={fingerprint} paths={}",
        paths.join(",")
    ))?;
    let bin = pipeline.downcast_ref::<gst::Bin>().ok_or("no pipeline")?;
    let (coder, sink) = (bin.by_name("coder").ok_or("no encoder")?, bin.by_name("sink").ok_or("no sink")?);
    sink.connect_notify(Some("estimated-bitrate"), move |sink, _| {
        coder.set_property("bitrate", sink.property::<u32>("estimated-bitrate") / 1000);
    });
    pipeline.set_state(gst::State::Playing)?;
    let bus = pipeline.bus().ok_or("no bus")?;
    bus.timed_pop_filtered(None, &[gst::MessageType::Eos, gst::MessageType::Error]);
    pipeline.set_state(gst::State::Null)?;
    Ok(())
}
