//! Exits from SRV records (RFC 2782).

#[cfg(all(test, feature = "srv"))]
mod tests;

/// A record: an exit with its priority (the lowest number first) and its weight among those of the
/// same priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) priority: u16,
    pub(crate) weight: u16,
    /// `HOST:PORT`.
    pub(crate) host: String,
}

/// Looks up the records of a name; if there are many, those of the lowest priority numbers. Every
/// call uses the name servers that the system has at that time.
#[cfg(feature = "srv")]
pub(crate) async fn lookup(name: &str) -> Result<Vec<Record>, String> {
    ask(domain::resolv::stub::conf::ResolvConf::default(), name).await
}

#[cfg(not(feature = "srv"))]
pub(crate) async fn lookup(_: &str) -> Result<Vec<Record>, String> {
    Err("this program was built without SRV records (feature srv)".to_owned())
}

#[cfg(feature = "srv")]
async fn ask(mut system: domain::resolv::stub::conf::ResolvConf, name: &str) -> Result<Vec<Record>, String> {
    use std::{str::FromStr as _, time::Duration};

    use domain::{
        base::{
            iana::{Rcode, Rtype},
            name::Name,
        },
        rdata::Srv,
        resolv::StubResolver,
    };

    use crate::config::{MAX_EXITS, is_host_and_port};

    /// Timeout of a query, within which every name server is asked.
    const TIMEOUT: Duration = Duration::from_secs(4);

    let question = Name::<Vec<u8>>::from_str(name).map_err(|error| error.to_string())?;
    system.options.timeout = TIMEOUT;
    let answer = StubResolver::from_conf(system).query((question, Rtype::SRV)).await;
    let answer = answer.map_err(|error| match error.kind() {
        std::io::ErrorKind::TimedOut => "no name server answers".to_owned(),
        _ => error.to_string(),
    })?;
    match answer.header().rcode() {
        Rcode::NOERROR => {}
        Rcode::NXDOMAIN => return Err("there is no such name".to_owned()),
        code => return Err(format!("the name server answers with {code}")),
    }
    let found = answer.answer().map_err(|error| error.to_string())?;
    let mut records: Vec<Record> = found
        .limit_to::<Srv<_>>()
        .filter_map(Result::ok)
        .map(|record| {
            let srv = record.data();
            let host = format!("{}:{}", srv.target(), srv.port());
            Record { priority: srv.priority(), weight: srv.weight(), host }
        })
        // The target "." means that the service is not available.
        .filter(|record| is_host_and_port(&record.host))
        .collect();
    records.sort_by_key(|record| record.priority);
    records.truncate(MAX_EXITS);
    if records.is_empty() { Err("it has no SRV record of a host".to_owned()) } else { Ok(records) }
}
