//! Conversion of ModemManager's properties to a reading.
//!
//! Their meaning is that of ModemManager's D-Bus reference: `Modem`, `Modem.Modem3gpp` and
//! `Modem.Signal`.

use std::collections::HashMap;

use zbus::zvariant::{OwnedValue, Value};

use crate::{Reading, Technology, Time};

/// Properties of an interface.
pub(super) type Properties = HashMap<String, OwnedValue>;

/// The received properties of a modem.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Properties of `Modem`.
    pub(super) modem: Properties,
    /// Properties of `Modem.Modem3gpp`.
    pub(super) network: Properties,
    /// Properties of `Modem.Signal`; `None` if the modem does not have it.
    pub(super) signal: Option<Properties>,
}

/// MM_MODEM_STATE_UNKNOWN and _REGISTERED: in states below the latter, the modem is in no network.
const STATE_UNKNOWN: i32 = 0;
const STATE_REGISTERED: i32 = 8;

/// MM_MODEM_3GPP_REGISTRATION_STATE_IDLE, _SEARCHING, _DENIED.
const NOT_REGISTERED: [u32; 3] = [0, 2, 3];

/// MM_MODEM_ACCESS_TECHNOLOGY_*, as bits.
const LTE: u32 = 1 << 14 | 1 << 16 | 1 << 17;
const NR: u32 = 1 << 15;
const UMTS: u32 = 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 9;
const GSM: u32 = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4;

/// Bound of valid levels: modems report unknown ones as numbers such as −32768.
const PLAUSIBLE: f64 = 200.0;

impl Known {
    /// Converts the properties to a reading.
    ///
    /// A 5G modem with an LTE anchor reports both: 5G carries the data, so its levels are used if
    /// it has any. Levels of two cells are not mixed.
    pub(super) fn reading(&self, at: Time) -> Reading {
        if self.is_out() {
            return Reading::disconnected(at, self.used());
        }
        let [nr, lte, umts, gsm] = ["Nr5g", "Lte", "Umts", "Gsm"].map(|name| self.levels(name));
        let mut reading = match (nr, lte) {
            (Some(nr), anchor) => {
                let beside_lte = anchor.is_some() || self.access() & LTE != 0;
                Reading { technology: if beside_lte { Technology::NrNsa } else { Technology::Nr }, ..nr }
            }
            (None, Some(lte)) => {
                let beside_nr = self.access() & NR != 0;
                Reading { technology: if beside_nr { Technology::NrNsa } else { Technology::Lte }, ..lte }
            }
            (None, None) => match (umts, gsm) {
                (Some(umts), _) => Reading { technology: Technology::Umts, ..umts },
                (None, Some(gsm)) => Reading { technology: Technology::Gsm, ..gsm },
                (None, None) => Reading { technology: self.used(), ..Reading::default() },
            },
        };
        reading.at = at;
        reading
    }

    fn is_out(&self) -> bool {
        let state = number(&self.modem, "State").unwrap_or(STATE_UNKNOWN);
        let registration = self.network.get("RegistrationState").and_then(|value| value.downcast_ref().ok());
        (state != STATE_UNKNOWN && state < STATE_REGISTERED)
            || registration.is_some_and(|state: u32| NOT_REGISTERED.contains(&state))
    }

    /// Returns the technologies in use, as bits.
    fn access(&self) -> u32 {
        self.modem.get("AccessTechnologies").and_then(|value| value.downcast_ref().ok()).unwrap_or(0)
    }

    fn used(&self) -> Technology {
        let access = self.access();
        match (access & NR != 0, access & LTE != 0) {
            (true, true) => Technology::NrNsa,
            (true, false) => Technology::Nr,
            (false, true) => Technology::Lte,
            _ if access & UMTS != 0 => Technology::Umts,
            _ if access & GSM != 0 => Technology::Gsm,
            _ => Technology::Unknown,
        }
    }

    /// Returns the levels of one technology; `None` if it has none.
    fn levels(&self, technology: &str) -> Option<Reading> {
        let dictionary = self.signal.as_ref()?.get(technology)?;
        let Value::Dict(dictionary) = &**dictionary else { return None };
        let level = |name: &str| {
            let level = dictionary.get::<_, f64>(&name).ok().flatten()?;
            (level.abs() < PLAUSIBLE).then_some(level)
        };
        // The strength of a UMTS cell is that of its pilot less the pilot's share.
        let strength = level("rssi").or_else(|| Some(level("rscp")? - level("ecio")?));
        let levels = Reading {
            rsrp: level("rsrp"),
            rsrq: level("rsrq"),
            sinr: level("snr"),
            rssi: strength,
            ..Reading::default()
        };
        (levels != Reading::default()).then_some(levels)
    }
}

/// Returns a property that is a signed number.
fn number(properties: &Properties, name: &str) -> Option<i32> {
    properties.get(name)?.downcast_ref().ok()
}

#[cfg(test)]
mod tests {
    use squall_units::short::at_us;

    use super::*;

    fn owned<'a>(value: impl Into<Value<'a>>) -> OwnedValue {
        value.into().try_to_owned().expect("holds no file")
    }

    fn signal(technologies: &[(&str, &[(&str, f64)])]) -> Option<Properties> {
        let dictionary = |levels: &[(&str, f64)]| {
            let levels: HashMap<_, _> = levels.iter().map(|(name, dbm)| (*name, Value::from(*dbm))).collect();
            owned(levels)
        };
        Some(technologies.iter().map(|(name, levels)| ((*name).to_owned(), dictionary(levels))).collect())
    }

    fn known(state: i32, access: u32, signal: Option<Properties>) -> Known {
        let modem =
            [("State".to_owned(), owned(state)), ("AccessTechnologies".to_owned(), owned(access))].into();
        let network = [("RegistrationState".to_owned(), owned(1u32))].into();
        Known { modem, network, signal }
    }

    const LTE_LEVELS: &[(&str, f64)] = &[("rssi", -65.0), ("rsrq", -11.0), ("rsrp", -97.0), ("snr", 12.4)];
    const NR_LEVELS: &[(&str, f64)] = &[("rsrq", -12.0), ("rsrp", -104.0), ("snr", 7.5)];

    #[test]
    fn levels_of_5g_count_before_those_of_its_anchor() {
        let both = signal(&[("Lte", LTE_LEVELS), ("Nr5g", NR_LEVELS), ("Umts", &[]), ("Rate", &[])]);
        let seen = known(11, LTE | NR, both).reading(at_us(7));
        let expected = Reading {
            at: at_us(7),
            technology: Technology::NrNsa,
            rsrp: Some(-104.0),
            rsrq: Some(-12.0),
            sinr: Some(7.5),
            ..Reading::default()
        };
        assert_eq!(seen, expected);
        let alone = known(11, NR, signal(&[("Nr5g", NR_LEVELS)])).reading(at_us(7));
        assert_eq!(alone, Reading { technology: Technology::Nr, ..expected });
        let anchor = known(11, LTE | NR, signal(&[("Lte", LTE_LEVELS), ("Nr5g", &[])])).reading(at_us(7));
        assert_eq!((anchor.technology, anchor.rsrp), (Technology::NrNsa, Some(-97.0)));
    }

    #[test]
    fn what_is_missing_or_no_level_is_left_out() {
        let odd = [("rsrp", -32768.0), ("rsrq", f64::NAN), ("snr", 3.0)];
        let seen = known(8, LTE, signal(&[("Lte", &odd)])).reading(at_us(1));
        assert_eq!(
            seen,
            Reading { at: at_us(1), technology: Technology::Lte, sinr: Some(3.0), ..Reading::default() }
        );
        let mut wrong = signal(&[]).expect("is there");
        wrong.insert("Lte".to_owned(), owned("text"));
        for none in [None, signal(&[]), signal(&[("Lte", &[])]), Some(wrong)] {
            let seen = known(11, LTE, none).reading(at_us(1));
            assert_eq!(seen, Reading { at: at_us(1), technology: Technology::Lte, ..Reading::default() });
        }
        assert_eq!(Known::default().reading(at_us(1)), Reading { at: at_us(1), ..Reading::default() });
    }

    #[test]
    fn old_networks_have_a_strength() {
        let umts =
            known(11, 1 << 5, signal(&[("Umts", &[("rscp", -95.0), ("ecio", -10.0)])])).reading(at_us(1));
        assert_eq!((umts.technology, umts.rssi), (Technology::Umts, Some(-85.0)));
        let gsm = known(11, 1 << 3, signal(&[("Gsm", &[("rssi", -71.0)])])).reading(at_us(1));
        assert_eq!((gsm.technology, gsm.rssi), (Technology::Gsm, Some(-71.0)));
    }

    #[test]
    fn a_modem_in_no_network_is_disconnected_whatever_its_levels() {
        for (state, registration, out) in
            [(7, 1, true), (-1, 1, true), (3, 1, true), (0, 1, false), (11, 1, false), (8, 5, false)]
                .into_iter()
                .chain([(11, 0, true), (11, 2, true), (11, 3, true), (11, 4, false), (8, 10, false)])
        {
            let mut known = known(state, LTE, signal(&[("Lte", LTE_LEVELS)]));
            known.network.insert("RegistrationState".to_owned(), owned(registration as u32));
            let seen = known.reading(at_us(1));
            assert_eq!(seen.disconnected, out, "state {state}, registration {registration}");
            assert_eq!((seen.technology, seen.rsrp.is_none()), (Technology::Lte, out));
        }
    }
}
