//! What the blocks of a flow's frames need, if its media shows it.

use squall::Depends;

use super::class::{Class, Media};

/// The chain of references of a flow.
///
/// A picture is taken to refer to the one before it that others may need, as with every encoder that neither reorders
/// pictures nor has temporal layers. A flow that shows a disposable picture may do both. So may one of VP9 or AV1, whose
/// layers are not read. Of such a flow it is only known that a picture needs the key picture of its group. What is unknown
/// is not claimed.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    layered: bool,
}

impl Chain {
    /// A block begins: of a frame of this class, if it is known. `before` is the class of the block before it of the same
    /// frame, if there is one.
    pub(crate) fn next(&mut self, media: Media, class: Option<Class>, before: Option<Class>) -> Depends {
        self.layered |= class == Some(Class::Disposable) || matches!(media, Media::Vp9 | Media::Av1);
        match class {
            None | Some(Class::Audio | Class::Data) => Depends::Nothing,
            // The rest of a frame is useless without its beginning.
            Some(Class::Key) if before == class => Depends::Reference,
            Some(Class::Key) => Depends::Key,
            Some(Class::Reference) if !self.layered => Depends::Reference,
            Some(Class::Reference | Class::Disposable) => Depends::Disposable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_refer_to_the_one_before_until_one_is_disposable() {
        let mut chain = Chain::default();
        let mut next = |class, before| chain.next(Media::H264, class, before);
        let (key, reference, disposable) =
            (Some(Class::Key), Some(Class::Reference), Some(Class::Disposable));
        assert_eq!(next(key, None), Depends::Key);
        assert_eq!(next(key, key), Depends::Reference, "the rest of the key picture");
        assert_eq!(next(key, reference), Depends::Key, "it proved more important than it began");
        assert_eq!(next(reference, None), Depends::Reference);
        assert_eq!(next(None, None), Depends::Nothing);
        assert_eq!(next(Some(Class::Audio), None), Depends::Nothing);
        assert_eq!(next(disposable, None), Depends::Disposable);
        assert_eq!(next(reference, None), Depends::Disposable, "there may be layers");
        assert_eq!(next(key, None), Depends::Key);
    }

    #[test]
    fn of_codecs_whose_layers_are_not_read_only_the_key_picture_is_needed() {
        for media in [Media::Vp9, Media::Av1] {
            assert_eq!(Chain::default().next(media, Some(Class::Reference), None), Depends::Disposable);
        }
    }
}
