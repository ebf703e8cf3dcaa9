//! Carrier over TQUIC, by a relay that is a separate program (`lab/versus-tquic`): TQUIC includes
//! BoringSSL, which takes long to build.

use std::net::SocketAddr;

use squall_shell::Addresses;
use squall_versus_stream::PORT;

use super::Run;
use crate::{
    spec::{End, SideSpec},
    transport::tquic_relay,
};

pub(super) fn run(spec: &SideSpec, scheduler: &str) -> Run {
    let server = SocketAddr::new(squall_shell::server(spec.family), PORT);
    let certificate = spec.folder.join("certificate");
    let end = if spec.end == End::Near { "client" } else { "server" };
    let mut arguments =
        vec![end.to_owned(), scheduler.to_owned(), certificate.display().to_string(), server.to_string()];
    if spec.end == End::Near {
        arguments.extend((0..spec.links).map(|link| Addresses::of(link).client(spec.family).to_string()));
    }
    Run::new(tquic_relay(&spec.lab), arguments)
}
