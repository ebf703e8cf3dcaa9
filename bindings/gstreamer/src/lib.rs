//! GStreamer elements: `squallsink` sends an encoded stream over every network of the device, `squallsrc` receives it.
//!
//! A buffer is a block ([`frame`], [`class`]). `link` keeps an element connected; `sink` and
//! `source` are the elements.

mod caps;
mod class;
mod counters;
mod encoder;
mod frame;
mod hello;
mod link;
mod settings;
mod sink;
mod source;
mod timeline;

use std::sync::LazyLock;

use gstreamer::{self as gst, glib};

static LOG: LazyLock<gst::DebugCategory> = LazyLock::new(|| {
    gst::DebugCategory::new(
        "squall",
        gst::DebugColorFlags::empty(),
        Some("Multipath QUIC for real-time media"),
    )
});

/// Registers both elements; called by programs that link the crate instead of loading the plugin.
///
/// # Errors
/// If they are registered already.
pub fn plugin_init(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
    sink::register(plugin)?;
    source::register(plugin)
}

gst::plugin_define!(
    squall,
    "Multipath QUIC for real-time media",
    plugin_init,
    env!("CARGO_PKG_VERSION"),
    "MIT/X11",
    "squall",
    "squall",
    "https://github.com/squall-media/squall"
);
