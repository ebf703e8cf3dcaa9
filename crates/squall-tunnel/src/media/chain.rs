//! Dependencies between the blocks of a flow's frames, if its media format shows them.

use squall::Depends;

use super::class::{Class, Media};

/// Chain of references of a flow.
///
/// A picture is assumed to refer to the previous referenced picture. That holds for every encoder
/// that neither reorders pictures nor uses temporal layers. A flow with disposable pictures may do
/// both, and so may VP9 and AV1, whose layers are not parsed. For these, the only dependency that
/// is certain is on the key picture of the group. Uncertain dependencies are not declared.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    layered: bool,
}

impl Chain {
    /// Returns the dependency of a block that begins: `class` is that of its frame, if known,
    /// `before` that of the previous block of the same frame, if there is one.
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
