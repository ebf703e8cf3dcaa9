//! Class of a picture, determined unit by unit.

use super::class::Class;

/// A unit of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Parameter sets of the decoder.
    Parameters,
    /// Decoding can begin here: the pictures from this one on are right if `at_once`, otherwise
    /// those from a later one.
    Recovery { at_once: bool },
    /// Slice of a picture of this class.
    Slice(Class),
}

/// Number of key pictures with parameters, without other pictures with parameters in between, after
/// which parameters indicate a key picture again.
const KEYS: u8 = 2;

/// Pictures of a stream, in decoding order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pictures {
    has_parameters: bool,
    /// The current, and the previous, picture has a recovery point.
    recovers: [bool; 2],
    is_key: bool,
    /// Its first slice was read.
    has_slice: bool,
    /// Remaining key pictures with parameters until parameters indicate a key picture again. Set
    /// when other pictures have parameters too, as some encoders repeat them with each picture.
    misleading: u8,
}

impl Pictures {
    /// Begins a picture.
    pub(super) fn begin(&mut self) {
        self.recovers = [false, self.recovers[0]];
        (self.has_parameters, self.is_key, self.has_slice) = (false, false, false);
    }

    /// Returns the class of the picture, if this unit shows it.
    pub(super) fn class_of(&mut self, unit: Unit) -> Option<Class> {
        let class = match unit {
            Unit::Parameters => {
                self.has_parameters = true;
                return (self.misleading == 0).then_some(Class::Key);
            }
            // If recovery takes several pictures, only the first of consecutive recovery points
            // counts.
            Unit::Recovery { at_once } => {
                self.recovers[0] = true;
                (at_once || !self.recovers[1]).then_some(Class::Key)
            }
            Unit::Slice(class) => Some(class),
        };
        self.is_key |= class == Some(Class::Key);
        if matches!(unit, Unit::Slice(_))
            && !std::mem::replace(&mut self.has_slice, true)
            && self.has_parameters
        {
            self.misleading = if self.is_key { self.misleading.saturating_sub(1) } else { KEYS };
        }
        class
    }
}

/// Payload type of a recovery point (H.264 §D.1.1, H.265 §D.2.1).
const RECOVERY_POINT: usize = 6;

/// Finds the recovery point among SEI messages, which follow the header of their unit (H.264
/// §7.3.2.3.1, H.265 §7.3.5).
pub(super) fn recovery_point(messages: &[u8]) -> Option<Unit> {
    let mut zeros = 0;
    // Skip emulation prevention bytes (H.264 §7.4.1).
    let mut bytes = messages.iter().copied().filter(|byte| {
        let is_escape = zeros >= 2 && *byte == 3;
        zeros = if *byte == 0 { zeros + 1 } else { 0 };
        !is_escape
    });
    loop {
        let (kind, length) = (sum(&mut bytes)?, sum(&mut bytes)?);
        if kind == RECOVERY_POINT && length > 0 {
            // Number of pictures until recovery; 0 is coded in one bit (H.264 §D.1.8, H.265
            // §D.2.8).
            return Some(Unit::Recovery { at_once: bytes.next()? & 0x80 != 0 });
        }
        if length > 0 {
            bytes.nth(length - 1)?;
        }
    }
}

/// Reads a number coded as the sum of its bytes, all of which but the last are 255.
fn sum(bytes: &mut impl Iterator<Item = u8>) -> Option<usize> {
    let mut sum = 0;
    loop {
        let byte = bytes.next()?;
        sum += usize::from(byte);
        if byte != 0xff {
            return Some(sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: Unit = Unit::Slice(Class::Reference);
    const IDR: Unit = Unit::Slice(Class::Key);
    const GRADUAL: Unit = Unit::Recovery { at_once: false };

    /// Returns the class of each picture.
    fn classes(pictures: &mut Pictures, units: &[&[Unit]]) -> Vec<Class> {
        let class = |units: &&[Unit]| {
            pictures.begin();
            units.iter().filter_map(|unit| pictures.class_of(*unit)).max().expect("has a slice")
        };
        units.iter().map(class).collect()
    }

    #[test]
    fn parameters_are_a_sign_of_a_key_picture_unless_others_have_them() {
        use Class::{Key, Reference};
        let mut pictures = Pictures::default();
        let (with, without): (&[Unit], &[Unit]) = (&[Unit::Parameters, P], &[P]);
        let key: &[Unit] = &[Unit::Parameters, IDR];
        pictures.begin();
        assert_eq!(pictures.class_of(Unit::Parameters), Some(Key), "before anything is known");
        assert_eq!(
            classes(&mut pictures, &[key, without, with]),
            [Key, Reference, Key],
            "the first one misleads"
        );
        for _ in 0..3 {
            assert_eq!(
                classes(&mut pictures, &[with, key, with, with]),
                [Reference, Key, Reference, Reference]
            );
        }
        assert_eq!(classes(&mut pictures, &[without, with, without]), [Reference; 3], "with some of them");
        // Another encoder, which sends parameters with key pictures only.
        classes(&mut pictures, &[key, without, without, key]);
        pictures.begin();
        assert_eq!(pictures.class_of(Unit::Parameters), Some(Key));
    }

    #[test]
    fn recovery_points_are_key_but_not_each_of_a_row() {
        use Class::{Key, Reference};
        let mut pictures = Pictures::default();
        let gradual: &[Unit] = &[Unit::Parameters, GRADUAL, P];
        assert_eq!(classes(&mut pictures, &[&[P], gradual, &[P], gradual]), [Reference, Key, Reference, Key]);
        pictures.begin();
        assert_eq!(pictures.class_of(Unit::Parameters), Some(Key), "they have all been key");
        let row: &[Unit] = &[GRADUAL, P];
        assert_eq!(classes(&mut pictures, &[&[P], row, row, row]), [Reference, Key, Reference, Reference]);
        let exact: &[Unit] = &[Unit::Recovery { at_once: true }, P];
        assert_eq!(classes(&mut pictures, &[exact, exact]), [Key, Key]);
    }

    #[test]
    fn recovery_points_are_found_among_other_messages() {
        let at_once = Some(Unit::Recovery { at_once: true });
        assert_eq!(recovery_point(&[6, 1, 0xc4, 0x80]), at_once);
        assert_eq!(recovery_point(&[6, 1, 0x40, 0x80]), Some(GRADUAL));
        // After a message of 2 bytes, one of 256, and one of 3 in which zeros are escaped.
        let long = [&[5, 0xff, 1][..], &[7; 256]].concat();
        let before = [&[1, 2, 6, 6][..], &long, &[4, 3, 0, 0, 3, 6]].concat();
        assert_eq!(recovery_point(&[&before[..], &[6, 1, 0xc4, 0x80]].concat()), at_once);
        assert_eq!(recovery_point(&[&before[..], &[0x80]].concat()), None);
        // Cut short.
        for messages in [&[][..], &[6], &[6, 1], &[6, 0], &[0xff], &[5, 9, 6, 1, 0x80], &[0; 4_000]] {
            assert_eq!(recovery_point(messages), None, "{messages:02x?}");
        }
    }
}
