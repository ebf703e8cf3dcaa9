//! Class of a block by the flags of its buffer: priority and dependencies.

use gstreamer as gst;
use squall::{Depends, Priority};

use crate::frame::Flags;

/// Relation of the buffers of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    /// A buffer is a picture, or part of one.
    Video,
    /// Every buffer can be decoded by itself.
    Audio,
    /// A buffer is a packet; a run of them is a picture.
    Packets,
}

/// Importance of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A picture without dependencies, or headers.
    Key,
    /// A picture, or a packet, that others need.
    Reference,
    /// A picture that no other needs.
    Disposable,
    Audio,
}

impl Media {
    /// Returns the kind of media for the media type of the caps.
    pub(crate) fn of(caps: &gst::CapsRef) -> Self {
        let Some(structure) = caps.structure(0) else { return Self::Packets };
        match structure.name().as_str() {
            "application/x-rtp" if structure.get::<&str>("media") == Ok("audio") => Self::Audio,
            "application/x-rtp" | "video/mpegts" => Self::Packets,
            name if name.starts_with("video/") => Self::Video,
            _ => Self::Audio,
        }
    }
}

impl Class {
    pub(crate) fn of(media: Media, flags: Flags) -> Self {
        match media {
            Media::Audio => Self::Audio,
            _ if !flags.delta || flags.header => Self::Key,
            _ if flags.droppable => Self::Disposable,
            _ => Self::Reference,
        }
    }

    /// Returns the priority, with the same ranks as in the tunnel.
    pub(crate) fn priority(self) -> Priority {
        let rank = match self {
            Self::Key | Self::Audio => 2,
            Self::Reference => 3,
            Self::Disposable => 4,
        };
        Priority::new(rank)
    }

    /// `true` if the stream cannot be decoded without the buffer until the next key frame.
    pub(crate) fn is_needed(self) -> bool {
        matches!(self, Self::Key | Self::Reference)
    }
}

/// Dependencies of the buffers of a stream.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    before: Option<Class>,
    /// A disposable buffer was seen: the stream reorders pictures or has layers. The only certain
    /// dependency of a picture is then the key picture of its group.
    layered: bool,
}

impl Chain {
    /// Returns the dependencies of the next buffer.
    pub(crate) fn next(&mut self, media: Media, class: Class, flags: Flags) -> Depends {
        let before = self.before.replace(class);
        self.layered |= class == Class::Disposable;
        match class {
            Class::Audio => Depends::Nothing,
            // Headers within a group, and the further packets of a key picture.
            Class::Key if flags.delta => Depends::Reference,
            Class::Key if media == Media::Packets && before == Some(Class::Key) => Depends::Reference,
            Class::Key => Depends::Key,
            Class::Reference if !self.layered => Depends::Reference,
            Class::Reference | Class::Disposable => Depends::Disposable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Flags = Flags { delta: false, droppable: false, header: true, discont: false, marker: false };
    const DELTA: Flags = Flags { delta: true, header: false, ..KEY };
    const DROPPABLE: Flags = Flags { droppable: true, ..DELTA };

    fn chain(media: Media, flags: &[Flags]) -> Vec<Depends> {
        let mut chain = Chain::default();
        flags.iter().map(|flags| chain.next(media, Class::of(media, *flags), *flags)).collect()
    }

    #[test]
    fn flags_decide_the_class() {
        assert_eq!(Class::of(Media::Video, KEY), Class::Key);
        assert_eq!(Class::of(Media::Video, DELTA), Class::Reference);
        assert_eq!(Class::of(Media::Video, DROPPABLE), Class::Disposable);
        assert_eq!(Class::of(Media::Video, Flags { header: true, ..DELTA }), Class::Key);
        assert_eq!(Class::of(Media::Audio, KEY), Class::Audio);
        assert!(Class::Key.priority() < Class::Reference.priority());
        assert!(Class::Reference.priority() < Class::Disposable.priority());
    }

    #[test]
    fn pictures_need_the_one_before_until_one_is_disposable() {
        use Depends::{Disposable, Key, Reference};
        assert_eq!(
            chain(Media::Video, &[KEY, DELTA, DROPPABLE, DELTA, KEY, KEY]),
            [Key, Reference, Disposable, Disposable, Key, Key]
        );
    }

    #[test]
    fn packets_of_one_key_picture_start_one_group() {
        use Depends::{Key, Nothing, Reference};
        assert_eq!(
            chain(Media::Packets, &[KEY, KEY, DELTA, KEY, KEY]),
            [Key, Reference, Reference, Key, Reference]
        );
        assert_eq!(chain(Media::Audio, &[KEY, KEY]), [Nothing, Nothing]);
    }

    #[test]
    fn media_types_decide_how_buffers_relate() {
        gst::init().expect("starts");
        let media = |name: &str| Media::of(&gst::Caps::builder(name).build());
        assert_eq!(media("video/x-h264"), Media::Video);
        assert_eq!(media("audio/x-opus"), Media::Audio);
        assert_eq!(media("video/mpegts"), Media::Packets);
        assert_eq!(media("application/x-rtp"), Media::Packets);
        let audio = gst::Caps::builder("application/x-rtp").field("media", "audio").build();
        assert_eq!(Media::of(&audio), Media::Audio);
    }
}
