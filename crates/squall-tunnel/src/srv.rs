//! Exits from SRV records (RFC 2782).

#[cfg(all(test, feature = "srv"))]
mod tests;

/// A record: an exit, with its priority (the lowest number first) and its weight among those of the same priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) priority: u16,
    pub(crate) weight: u16,
    /// `HOST:PORT`.
    pub(crate) host: String,
}

/// The records of a name, those of the lowest priority numbers if there are many. Every call asks the name servers that the
/// system has at this time.
#[cfg(feature = "srv")]
pub(crate) async fn lookup(name: &str) -> Result<Vec<Record>, String> {
    let builder = hickory_resolver::TokioResolver::builder_tokio();
    ask(builder.map_err(|error| format!("the system's name servers are unknown: {error}"))?, name).await
}

#[cfg(not(feature = "srv"))]
pub(crate) async fn lookup(_: &str) -> Result<Vec<Record>, String> {
    Err("this program was built without SRV records (feature srv)".to_owned())
}

#[cfg(feature = "srv")]
async fn ask(
    mut builder: hickory_resolver::ResolverBuilder<hickory_resolver::net::runtime::TokioRuntimeProvider>,
    name: &str,
) -> Result<Vec<Record>, String> {
    use std::time::Duration;

    use hickory_resolver::proto::rr::RData;

    use crate::config::{MAX_EXITS, is_host_and_port};

    /// Timeout of one question to one server, and of all of them.
    const ATTEMPT: Duration = Duration::from_millis(1500);
    const TIMEOUT: Duration = Duration::from_secs(4);

    builder.options_mut().timeout = ATTEMPT;
    builder.options_mut().attempts = 1;
    builder.options_mut().cache_size = 0;
    let resolver = builder.build().map_err(|error| error.to_string())?;
    // The final dot: a full name, which no search domain extends.
    let question = resolver.srv_lookup(format!("{name}."));
    let answer = tokio::time::timeout(TIMEOUT, question).await;
    let answer =
        answer.map_err(|_| "no name server answers".to_owned())?.map_err(|error| error.to_string())?;
    let mut records: Vec<Record> = answer
        .answers()
        .iter()
        .filter_map(|record| match &record.data {
            RData::SRV(srv) => Some(Record {
                priority: srv.priority,
                weight: srv.weight,
                host: format!("{}:{}", srv.target.to_ascii().trim_end_matches('.'), srv.port),
            }),
            _ => None,
        })
        // The target "." means that the service is not available.
        .filter(|record| is_host_and_port(&record.host))
        .collect();
    records.sort_by_key(|record| record.priority);
    records.truncate(MAX_EXITS);
    if records.is_empty() { Err("it has no SRV record of a host".to_owned()) } else { Ok(records) }
}
