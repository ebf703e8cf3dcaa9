//! Properties of both elements, and their interpretation.

use std::{net::IpAddr, path::Path, str::FromStr as _, time::Duration};

use gstreamer::{glib, prelude::*};
use squall::{Config, Connect, Fingerprint, Identity, Interfaces, ServerTls, Trust, load_certificates};

use crate::hello::{MAX_TOKEN, MIN_TOKEN};

/// Maximum of `latency` of either end, in milliseconds.
pub(crate) const MAX_LATENCY_MS: u32 = 60_000;

const LATENCY_MS: u32 = 300;

/// A property with an invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) property: &'static str,
    pub(crate) line: String,
}

impl Fault {
    #[expect(clippy::needless_pass_by_value, reason = "callers pass literals and errors as they are")]
    pub(crate) fn new(property: &'static str, line: impl ToString) -> Self {
        Self { property, line: line.to_string() }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "property '{}': {}", self.property, self.line)
    }
}

/// Values of the properties.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    address: Option<String>,
    listen: Option<String>,
    paths: Option<String>,
    scheduler: Option<String>,
    congestion: Option<String>,
    fingerprint: Option<String>,
    authorities: Option<String>,
    insecure: bool,
    certificate: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) latency_ms: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            address: None,
            listen: None,
            paths: None,
            scheduler: None,
            congestion: None,
            fingerprint: None,
            authorities: None,
            insecure: false,
            certificate: None,
            token: None,
            latency_ms: LATENCY_MS,
        }
    }
}

/// Connection mode of an element.
pub(crate) enum Plan {
    Connect(Box<Connect>, Box<Config>),
    Listen(Box<Listen>, Box<Config>),
}

pub(crate) struct Listen {
    pub(crate) address: String,
    pub(crate) tls: ServerTls,
    pub(crate) fingerprint: Fingerprint,
}

fn text(name: &str, blurb: &str) -> glib::ParamSpec {
    glib::ParamSpecString::builder(name).blurb(blurb).mutable_ready().build()
}

/// Returns the properties of both elements.
pub(crate) fn properties() -> Vec<glib::ParamSpec> {
    vec![
        text("address", "HOST:PORT of the other end, to connect to it"),
        text("listen", "ADDRESS:PORT to wait for the other end; 0.0.0.0:PORT or [::]:PORT for all addresses"),
        text("paths", "Names or addresses of local interfaces to connect over, by commas; all with a route if unset"),
        text("scheduler", "Scheduler of the sender, with options; the default of the library if unset"),
        text("congestion", "Congestion control of the sender; the default of the library if unset"),
        text("fingerprint", "SHA-256 of the certificate of the end that listens, to trust no other"),
        text("authorities", "PEM file of the authorities to trust, instead of those of the system"),
        glib::ParamSpecBoolean::builder("insecure")
            .blurb("Trust any certificate; for tests on one machine")
            .mutable_ready()
            .build(),
        text("certificate", "PEM file of the own certificate and key, made if missing; a new one each time if unset"),
        text("token", "Secret that both ends share, of 12 to 256 bytes"),
        glib::ParamSpecUInt::builder("latency")
            .blurb("Milliseconds from the running time of a buffer to its deadline, and to its display at the receiver")
            .minimum(1)
            .maximum(MAX_LATENCY_MS)
            .default_value(LATENCY_MS)
            .mutable_ready()
            .build(),
        glib::ParamSpecString::builder("own-fingerprint")
            .blurb("SHA-256 of the own certificate, while listening")
            .read_only()
            .build(),
        glib::ParamSpecBoxed::builder::<gstreamer::Structure>("stats")
            .blurb("Counters of the session and its paths")
            .read_only()
            .build(),
    ]
}

impl Settings {
    /// Sets a property; returns `false` if it is not one of these.
    pub(crate) fn set(&mut self, name: &str, value: &glib::Value) -> bool {
        let slot = match name {
            "insecure" => {
                self.insecure = value.get().unwrap_or(false);
                return true;
            }
            "latency" => {
                self.latency_ms = value.get().unwrap_or(LATENCY_MS);
                return true;
            }
            _ => self.text_mut(name),
        };
        // An empty text is unset, as in gst-launch.
        let text = value.get::<Option<String>>().unwrap_or_default().filter(|text| !text.is_empty());
        slot.map(|slot| *slot = text).is_some()
    }

    /// Returns the value of a property; `None` if it is not one of these.
    pub(crate) fn get(&mut self, name: &str) -> Option<glib::Value> {
        match name {
            "insecure" => Some(self.insecure.to_value()),
            "latency" => Some(self.latency_ms.to_value()),
            _ => self.text_mut(name).map(|text| text.to_value()),
        }
    }

    fn text_mut(&mut self, name: &str) -> Option<&mut Option<String>> {
        Some(match name {
            "address" => &mut self.address,
            "listen" => &mut self.listen,
            "paths" => &mut self.paths,
            "scheduler" => &mut self.scheduler,
            "congestion" => &mut self.congestion,
            "fingerprint" => &mut self.fingerprint,
            "authorities" => &mut self.authorities,
            "certificate" => &mut self.certificate,
            "token" => &mut self.token,
            _ => return None,
        })
    }

    /// # Errors
    /// The first invalid property.
    pub(crate) fn plan(&self) -> Result<Plan, Fault> {
        if self.token.as_ref().is_some_and(|token| !(MIN_TOKEN..=MAX_TOKEN).contains(&token.len())) {
            return Err(Fault::new("token", format!("a token has {MIN_TOKEN} to {MAX_TOKEN} bytes")));
        }
        let config = Box::new(self.config()?);
        match (&self.address, &self.listen) {
            (Some(address), None) => Ok(Plan::Connect(Box::new(self.connect(address)?), config)),
            (None, Some(listen)) => Ok(Plan::Listen(Box::new(self.listen(listen)?), config)),
            (None, None) => Err(Fault::new("address", "neither 'address' nor 'listen' is set")),
            (Some(_), Some(_)) => Err(Fault::new("listen", "'address' and 'listen' exclude each other")),
        }
    }

    fn config(&self) -> Result<Config, Fault> {
        let mut config = Config::default();
        if let Some(description) = &self.scheduler {
            let scheduler = squall::scheduler(description);
            config = config.scheduler(scheduler.map_err(|error| Fault::new("scheduler", error))?);
        }
        if let Some(name) = &self.congestion {
            let congestion = squall::congestion_control(name);
            config = config.congestion(congestion.map_err(|error| Fault::new("congestion", error))?);
        }
        // As in the tunnel: a shorter latency requires earlier detection of outages.
        let silence = Duration::from_millis(u64::from(self.latency_ms / 3).clamp(50, 200));
        Ok(config
            .silence(silence)
            .connect_timeout(Duration::from_secs(5))
            .announce_timeout(Duration::from_secs(5))
            .distrust(true)
            .max_sessions(16)
            .handshakes(64)
            .handshakes_per_host(32))
    }

    fn connect(&self, address: &str) -> Result<Connect, Fault> {
        let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
        if host.is_empty() || u16::from_str(port).is_err() {
            return Err(Fault::new("address", format!("'{address}' is not HOST:PORT")));
        }
        if self.certificate.is_some() {
            return Err(Fault::new("certificate", "only the end that listens has a certificate"));
        }
        Ok(Connect::to(address).trust(self.trust()?).interfaces(self.interfaces()?))
    }

    fn trust(&self) -> Result<Trust, Fault> {
        match (&self.fingerprint, &self.authorities, self.insecure) {
            (None, None, false) => Ok(Trust::PlatformRoots),
            (Some(text), None, false) => {
                text.parse().map(Trust::Pinned).map_err(|error| Fault::new("fingerprint", error))
            }
            (None, Some(file), false) => {
                load_certificates(file).map(Trust::Roots).map_err(|error| Fault::new("authorities", error))
            }
            (None, None, true) => Ok(Trust::InsecureAnyone),
            (Some(_), Some(_), _) => Err(Fault::new("authorities", "'fingerprint' is set, too")),
            (_, _, true) => Err(Fault::new("insecure", "'fingerprint' or 'authorities' is set, too")),
        }
    }

    fn interfaces(&self) -> Result<Interfaces, Fault> {
        let Some(list) = &self.paths else { return Ok(Interfaces::Auto) };
        let entries: Vec<&str> = list.split(',').map(str::trim).collect();
        if entries.iter().any(|entry| entry.is_empty()) {
            return Err(Fault::new("paths", format!("'{list}' has an empty entry")));
        }
        let addresses: Vec<IpAddr> = entries.iter().filter_map(|entry| entry.parse().ok()).collect();
        match addresses.len() {
            0 => Ok(Interfaces::Named(entries.into_iter().map(Into::into).collect())),
            len if len == entries.len() => Ok(Interfaces::Local(addresses)),
            _ => Err(Fault::new("paths", "entries are either all names or all addresses")),
        }
    }

    fn listen(&self, address: &str) -> Result<Listen, Fault> {
        for (property, is_set) in [
            ("paths", self.paths.is_some()),
            ("fingerprint", self.fingerprint.is_some()),
            ("authorities", self.authorities.is_some()),
            ("insecure", self.insecure),
        ] {
            if is_set {
                return Err(Fault::new(property, "only the end that connects has this choice"));
            }
        }
        let name = "squall";
        let identity = match &self.certificate {
            Some(file) => Identity::load_or_create(Path::new(file), name),
            None => Identity::self_signed(name),
        };
        let identity = identity.map_err(|error| Fault::new("certificate", error))?;
        let tls = identity.server_tls().map_err(|error| Fault::new("certificate", error))?;
        Ok(Listen { address: address.to_owned(), tls, fingerprint: identity.fingerprint() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(set: &[(&str, &str)]) -> Option<&'static str> {
        let mut settings = Settings::default();
        for (name, value) in set {
            assert!(settings.set(name, &value.to_value()), "{name}");
        }
        settings.plan().err().map(|fault| fault.property)
    }

    #[test]
    fn faults_name_the_property() {
        let to = ("address", "192.0.2.1:5000");
        let on = ("listen", "127.0.0.1:0");
        assert_eq!(fault(&[]), Some("address"));
        assert_eq!(fault(&[to]), None);
        assert_eq!(fault(&[on]), None);
        assert_eq!(fault(&[to, on]), Some("listen"));
        for address in ["192.0.2.1", ":5000", "host:port", "host:65536"] {
            assert_eq!(fault(&[("address", address)]), Some("address"), "{address}");
        }
        assert_eq!(fault(&[to, ("scheduler", "fastest")]), Some("scheduler"));
        assert_eq!(fault(&[to, ("congestion", "reno")]), Some("congestion"));
        assert_eq!(fault(&[to, ("fingerprint", "12:34")]), Some("fingerprint"));
        assert_eq!(fault(&[to, ("authorities", "/no/such/file")]), Some("authorities"));
        assert_eq!(fault(&[to, ("paths", "wlan0,10.0.0.1")]), Some("paths"));
        assert_eq!(fault(&[to, ("paths", "wlan0,")]), Some("paths"));
        assert_eq!(fault(&[to, ("certificate", "own.pem")]), Some("certificate"));
        assert_eq!(fault(&[on, ("certificate", "/no/such/folder/own.pem")]), Some("certificate"));
        assert_eq!(fault(&[on, ("paths", "wlan0")]), Some("paths"));
        assert_eq!(fault(&[to, ("token", &"x".repeat(MAX_TOKEN + 1))]), Some("token"));
        assert_eq!(fault(&[to, ("token", &"x".repeat(MIN_TOKEN - 1))]), Some("token"));
        assert_eq!(fault(&[to, ("token", &"x".repeat(MIN_TOKEN))]), None);
    }
}
