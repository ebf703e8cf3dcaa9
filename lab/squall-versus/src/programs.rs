//! Programs of other projects, from a file of transports.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    path::Path,
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use squall_shell::{Addresses, Family};
use squall_versus_stream::{PORT, SINK_PORT, SOURCE_PORT};

/// Words of a command, the program first. Placeholders in braces are filled in when it runs.
pub(crate) type Words = Vec<String>;

/// Commands of a transport at both ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Programs {
    /// Command that takes the packets on the client's side.
    pub(crate) client: Words,
    /// Command that passes them to the sink on the server's side.
    pub(crate) server: Words,
    /// Commands that must succeed first, one after the other.
    pub(crate) client_setup: Vec<Words>,
    /// Like [`client_setup`](Self::client_setup), on the server's side.
    pub(crate) server_setup: Vec<Words>,
}

/// Value of a placeholder.
enum Value {
    Address(IpAddr),
    Text(String),
}

/// Values of the placeholders in commands.
pub(crate) struct Values<'a> {
    pub(crate) links: usize,
    pub(crate) family: Family,
    pub(crate) latency_ms: u64,
    pub(crate) folder: &'a Path,
}

impl Values<'_> {
    /// Names of all placeholders.
    const NAMES: &'static str = "client1, client2, ..., server1, server2, ..., clients, servers, server, port, source, sink, links, \
                                 latency, folder";

    fn of(&self, name: &str) -> Option<Value> {
        let all = |of: &dyn Fn(Addresses) -> String| {
            Value::Text((0..self.links).map(|link| of(Addresses::of(link))).collect::<Vec<_>>().join(","))
        };
        let one = |prefix: &str| {
            let number: usize = name.strip_prefix(prefix)?.parse().ok()?;
            (1..=self.links).contains(&number).then(|| Addresses::of(number - 1))
        };
        Some(match name {
            "clients" => all(&|link| link.client(self.family).to_string()),
            "servers" => all(&|link| SocketAddr::new(link.server(self.family), PORT).to_string()),
            "server" => Value::Address(squall_shell::server(self.family)),
            "port" => Value::Text(PORT.to_string()),
            "source" => Value::Text(SOURCE_PORT.to_string()),
            "sink" => Value::Text(SINK_PORT.to_string()),
            "links" => Value::Text(self.links.to_string()),
            "latency" => Value::Text(self.latency_ms.to_string()),
            "folder" => Value::Text(self.folder.display().to_string()),
            _ => match (one("client"), one("server")) {
                (Some(link), _) => Value::Address(link.client(self.family)),
                (_, Some(link)) => Value::Address(link.server(self.family)),
                _ => return None,
            },
        })
    }

    /// Fills in the placeholders of a word.
    fn fill(&self, word: &str) -> anyhow::Result<String> {
        let (mut filled, mut rest) = (String::new(), word);
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) =
                after.split_once('}').with_context(|| format!("{word:?}: a {{ without its }}"))?;
            let value = self.of(name).with_context(|| {
                format!(
                    "{word:?}: there is no {{{name}}} with {} links; there are {}",
                    self.links,
                    Self::NAMES
                )
            })?;
            filled += before;
            filled += &match value {
                // A port follows, so the colons of the address need brackets (RFC 3986 §3.2.2).
                Value::Address(IpAddr::V6(address)) if after.starts_with(':') => format!("[{address}]"),
                Value::Address(address) => address.to_string(),
                Value::Text(text) => text,
            };
            rest = after;
        }
        Ok(filled + rest)
    }

    /// Fills in the placeholders of a command.
    fn command(&self, words: &Words) -> anyhow::Result<Words> {
        anyhow::ensure!(!words.is_empty(), "a command is empty");
        words.iter().map(|word| self.fill(word)).collect()
    }
}

impl Programs {
    /// Returns the commands of one side: those that prepare it, and the one that carries.
    pub(crate) fn of_side(
        &self,
        is_client: bool,
        values: &Values<'_>,
    ) -> anyhow::Result<(Vec<Words>, Words)> {
        let (setup, carries) = match is_client {
            true => (&self.client_setup, &self.client),
            false => (&self.server_setup, &self.server),
        };
        let setup = setup.iter().map(|words| values.command(words)).collect::<anyhow::Result<_>>()?;
        Ok((setup, values.command(carries)?))
    }

    /// Returns all commands.
    fn commands(&self) -> impl Iterator<Item = &Words> {
        let setup = self.client_setup.iter().chain(&self.server_setup);
        setup.chain([&self.client, &self.server])
    }

    /// Returns the programs that must be installed.
    pub(crate) fn needed(&self) -> BTreeSet<&str> {
        self.commands().filter_map(|words| words.first()).map(String::as_str).collect()
    }

    /// Checks all commands for this number of links.
    ///
    /// # Errors
    ///
    /// If a command has no program, or a placeholder that does not exist with this number of links.
    pub(crate) fn check(&self, links: usize) -> anyhow::Result<()> {
        let values = Values { links, family: Family::V4, latency_ms: 0, folder: Path::new("") };
        self.commands().try_for_each(|words| values.command(words).map(drop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(word: &str) -> Result<String, String> {
        filled_over(Family::V4, word)
    }

    fn filled_over(family: Family, word: &str) -> Result<String, String> {
        let values = Values { links: 2, family, latency_ms: 150, folder: Path::new("/tmp/log") };
        values.fill(word).map_err(|error| error.to_string())
    }

    #[test]
    fn places_are_filled_in() {
        for (word, expected) in [
            ("--verbose", "--verbose"),
            ("udp://127.0.0.1:{source}", "udp://127.0.0.1:5000"),
            ("{client2}-{server1}:{port}", "10.77.2.2-10.77.1.1:7000"),
            ("{clients} {servers}", "10.77.1.2,10.77.2.2 10.77.1.1:7000,10.77.2.1:7000"),
            ("{server}:{sink}?latency={latency}&n={links}", "10.77.0.1:6000?latency=150&n=2"),
            ("{folder}/key.pem", "/tmp/log/key.pem"),
        ] {
            assert_eq!(filled(word).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn addresses_of_ipv6_have_brackets_before_a_port() {
        for (word, expected) in [
            ("srt://{server1}:{port}?latency=9", "srt://[fd77:1::1]:7000?latency=9"),
            ("--bind={client2}", "--bind=fd77:2::2"),
            ("{clients} {servers}", "fd77:1::2,fd77:2::2 [fd77:1::1]:7000,[fd77:2::1]:7000"),
            ("{server}", "fd77::1"),
        ] {
            assert_eq!(filled_over(Family::V6, word).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn other_places_are_refused() {
        for word in ["{client3}", "{client0}", "{server03}", "{}", "{nothing}", "{ port }"] {
            let error = filled(word).expect_err("there is no such place");
            assert!(error.contains(word) && error.contains("2 links"), "{error}");
        }
        assert_eq!(filled("a{port").unwrap_err(), "\"a{port\": a { without its }");
        let empty = Programs {
            client: vec!["cat".into()],
            server: Vec::new(),
            client_setup: Vec::new(),
            server_setup: Vec::new(),
        };
        assert_eq!(empty.check(1).unwrap_err().to_string(), "a command is empty");
    }
}
