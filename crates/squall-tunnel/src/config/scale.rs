//! Settings of an exit behind a load balancer.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use squall::quic_lb::{QuicLb, QuicLbServer, ServerId};

use super::text::{Mistake, Parsed};

/// Size limit of a key file in bytes, including white space.
const MAX_FILE: u64 = 4 << 10;

/// Default length of the nonce in bytes.
const NONCE: usize = 8;

/// `[listen.load_balancer]` as written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoadBalancerTable {
    config: Option<u8>,
    server_id: Parsed<ServerId>,
    nonce: Option<usize>,
    key: Option<String>,
    key_file: Option<PathBuf>,
}

impl LoadBalancerTable {
    pub(super) fn check(self, folder: &Path) -> Result<QuicLbServer, Mistake> {
        let key = match (self.key, self.key_file) {
            (Some(key), None) => Some(parse_key(&key).map_err(|problem| Mistake::new("key", problem))?),
            (None, Some(file)) => {
                let file = folder.join(file);
                let problem = |problem| Mistake::new("key_file", format!("{}: {problem}", file.display()));
                let text =
                    squall_file::read_text(&file, MAX_FILE).map_err(|error| problem(error.to_string()))?;
                Some(parse_key(&text).map_err(|error| problem(error.to_owned()))?)
            }
            (None, None) => None,
            (Some(_), Some(_)) => return Err(Mistake::new("key_file", "key is given too")),
        };
        let (Parsed(server_id), config) = (self.server_id, self.config.unwrap_or_default());
        let nonce = self.nonce.unwrap_or(NONCE.min(MOST - server_id.as_bytes().len()));
        let format = QuicLb::new(config, server_id.as_bytes().len(), nonce, key);
        let server = format.and_then(|format| QuicLbServer::new(format, server_id));
        server.map_err(|error| Mistake::new(if config > 6 { "config" } else { "nonce" }, error.to_string()))
    }
}

/// Maximum length of server id and nonce together, in bytes.
const MOST: usize = 19;

/// Parses a key. Errors do not repeat it.
fn parse_key(text: &str) -> Result<[u8; 16], &'static str> {
    let text = text.trim();
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let bytes = digits
        .map(|digits| digits.chunks(2).map(|pair| pair.iter().fold(0, |sum, d| sum << 4 | d)).collect());
    let bytes: Option<Vec<u8>> = bytes.filter(|_| text.len() == 32);
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or("a key has 32 hexadecimal digits")
}
