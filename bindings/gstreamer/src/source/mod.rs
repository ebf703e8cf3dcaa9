//! `squallsrc`: blocks as an encoded stream.

mod imp;
mod inlet;

use gstreamer::{self as gst, glib, prelude::*};

glib::wrapper! {
    /// The element.
    pub struct SquallSrc(ObjectSubclass<imp::SquallSrc>)
        @extends gstreamer_base::PushSrc, gstreamer_base::BaseSrc, gst::Element, gst::Object;
}

pub(crate) fn register(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
    gst::Element::register(Some(plugin), "squallsrc", gst::Rank::NONE, SquallSrc::static_type())
}
