//! Checks by the fuzz targets of reports from radios: each function panics when a promise is
//! broken. See `fuzz/README.md`.

use std::collections::HashMap;

use zbus::zvariant::{OwnedValue, serialized};

use crate::{QualityIndex, Reading, Time, Watermark, WatermarkConfig, external, modem, wifi};

/// Parses any bytes as the lines in which another program reports a radio: a reading moves the
/// watermark, whatever its numbers.
pub fn radio_line(input: &[u8]) {
    let mut watermark = Watermark::new(WatermarkConfig::default()).expect("the default is right");
    for (line, now) in input.split(|byte| *byte == b'\n').zip((0..).step_by(100_000).map(Time::from_micros)) {
        if let Ok(reading) = external::parse(line, now) {
            assert!(reading.at <= now, "a reading is from the future");
            judge(&mut watermark, now, &reading);
        }
    }
}

fn judge(watermark: &mut Watermark, now: Time, reading: &Reading) {
    let quality = QualityIndex::default().of(reading, 0.0);
    assert!(quality.is_none_or(|quality| (0.0..=1.0).contains(&quality)), "{quality:?} of {reading:?}");
    watermark.update(now, reading, None);
    watermark.on_time(now);
}

/// Parses any bytes as messages of the kernel about a Wi-Fi interface.
pub fn nl80211(input: &[u8]) {
    wifi::parse_all(input);
}

/// Parses any bytes as properties of a modem on D-Bus: a byte each for the sizes of the first two
/// of three dictionaries.
pub fn modem(input: &[u8]) {
    let Some((&[first, second], rest)) = input.split_first_chunk::<2>() else { return };
    let (of_modem, rest) = rest.split_at(usize::from(first).min(rest.len()));
    let (of_network, of_signal) = rest.split_at(usize::from(second).min(rest.len()));
    let reading = modem::reading_of(properties(of_modem), properties(of_network), properties(of_signal));
    let mut watermark = Watermark::new(WatermarkConfig::default()).expect("the default is right");
    judge(&mut watermark, Time::EPOCH, &reading);
}

/// Parses a dictionary as the bus does; empty if it is invalid. Entries nested too deeply or cut
/// off are errors there.
fn properties(bytes: &[u8]) -> HashMap<String, OwnedValue> {
    let context = serialized::Context::new_dbus(zbus::zvariant::LE, 0);
    let data = serialized::Data::new(bytes, context);
    data.deserialize().map_or_else(|_| HashMap::new(), |(properties, _)| properties)
}

#[cfg(test)]
mod tests {
    use squall_testkit::replay;

    #[test]
    fn corpora() {
        replay("radio_line", super::radio_line);
        replay("nl80211", super::nl80211);
        replay("modem", super::modem);
    }
}
