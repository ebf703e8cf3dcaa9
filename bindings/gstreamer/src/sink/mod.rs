//! `squallsink`: an encoded stream as blocks.

mod bitrate;
mod imp;
mod outlet;
mod stream;

use gstreamer::{self as gst, glib, prelude::*};

glib::wrapper! {
    /// The element.
    pub struct SquallSink(ObjectSubclass<imp::SquallSink>)
        @extends gstreamer_base::BaseSink, gst::Element, gst::Object;
}

pub(crate) fn register(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
    gst::Element::register(Some(plugin), "squallsink", gst::Rank::NONE, SquallSink::static_type())
}
