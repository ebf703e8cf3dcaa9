//! Values of arguments that several commands take, for `clap`.

/// A scheduler's description that can be built.
pub(crate) fn parse_scheduler(text: &str) -> Result<String, String> {
    squall::scheduler(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// A host and a port.
pub(crate) fn parse_host(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    match port {
        Some((host, 1..)) if is_host(host) => Ok(text.to_owned()),
        _ => Err("expected HOST:PORT, such as media.example.org:4433 or [2001:db8::7]:4433".to_owned()),
    }
}

/// A name or an address; IPv6 addresses need brackets, as they contain colons.
fn is_host(text: &str) -> bool {
    let bracketed = text.starts_with('[') && text.ends_with(']');
    !text.is_empty() && (bracketed || !text.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_ports() {
        assert!(["a:1", "127.0.0.1:4433", "[::1]:65535"].iter().all(|host| parse_host(host).is_ok()));
        assert!(["a", ":1", "a:0", "a:65536", "::1", ""].iter().all(|host| parse_host(host).is_err()));
    }
}
