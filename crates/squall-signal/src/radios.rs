//! The radios of this machine.

use crate::{SignalSource, SourceError};

/// A radio that was opened, or the reason why it was not.
#[cfg(all(any(feature = "modem", feature = "wifi"), target_os = "linux"))]
type Opened = Result<Box<dyn SignalSource>, SourceError>;

/// The radios that were found, and the reasons for missing ones.
pub struct Radios {
    /// A source for each radio.
    pub sources: Vec<Box<dyn SignalSource>>,
    /// The reason for each kind of radio that was not found.
    pub problems: Vec<SourceError>,
}

impl std::fmt::Debug for Radios {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let labels: Vec<_> = self.sources.iter().map(|source| source.label()).collect();
        f.debug_struct("Radios").field("sources", &labels).field("problems", &self.problems).finish()
    }
}

/// Opens all radios of this machine: Wi-Fi interfaces and modems on Linux, if this build reads them
/// (features `wifi` and `modem`). On Android the application reports them, over a
/// [`board`](crate::board()).
pub fn radios() -> Radios {
    let mut found = Radios { sources: Vec::new(), problems: Vec::new() };
    #[cfg(all(feature = "wifi", target_os = "linux"))]
    found.add(
        crate::wifi_interfaces()
            .map(|names| names.into_iter().map(|name| crate::WifiSource::open(&name).map(boxed)).collect()),
    );
    #[cfg(all(feature = "modem", target_os = "linux"))]
    found.add(
        crate::modems().map(|all| all.iter().map(|modem| crate::ModemSource::of(modem).map(boxed)).collect()),
    );
    if found.sources.is_empty() && found.problems.is_empty() {
        found.problems.push(unsupported("radios"));
    }
    found
}

/// Opens the radio behind a network interface: the [`external`](crate::external) one if the
/// environment names a folder of those; else Wi-Fi, or a modem.
///
/// # Errors
/// Names the reason for each kind of radio.
pub fn radio(interface: &str) -> Result<Box<dyn SignalSource>, SourceError> {
    #[cfg(feature = "external")]
    if let Some(folder) = std::env::var_os(crate::external::FOLDER) {
        return crate::external::ExternalSource::open(std::path::Path::new(&folder), interface).map(boxed);
    }
    let mut problems: Vec<SourceError> = Vec::new();
    #[cfg(all(feature = "wifi", target_os = "linux"))]
    match crate::WifiSource::open(interface) {
        Ok(source) => return Ok(boxed(source)),
        Err(error) => problems.push(error),
    }
    #[cfg(all(feature = "modem", target_os = "linux"))]
    match crate::ModemSource::open(interface) {
        Ok(source) => return Ok(boxed(source)),
        Err(error) => problems.push(error),
    }
    let Some(last) = problems.pop() else { return Err(unsupported(interface)) };
    Err(problems.into_iter().rfold(last, |later, earlier| earlier.and(&later)))
}

#[cfg(any(feature = "external", all(any(feature = "modem", feature = "wifi"), target_os = "linux")))]
fn boxed(source: impl SignalSource + 'static) -> Box<dyn SignalSource> {
    Box::new(source)
}

#[cfg(all(any(feature = "modem", feature = "wifi"), target_os = "linux"))]
impl Radios {
    fn add(&mut self, found: Result<Vec<Opened>, SourceError>) {
        match found {
            Ok(all) => {
                for one in all {
                    match one {
                        Ok(source) => self.sources.push(source),
                        Err(problem) => self.problems.push(problem),
                    }
                }
            }
            Err(problem) => self.problems.push(problem),
        }
    }
}

fn unsupported(radio: &str) -> SourceError {
    let problem = "this build cannot read radios on this system".to_owned();
    SourceError::Missing { radio: radio.to_owned(), problem }
}
