use std::net::{Ipv4Addr, SocketAddr};

use hickory_resolver::{
    TokioResolver,
    config::{ConnectionConfig, NameServerConfig, ResolverConfig},
    net::runtime::TokioRuntimeProvider,
    proto::{
        op::{Message, MessageType, OpCode, ResponseCode},
        rr::{Name, RData, Record as DnsRecord, rdata::SRV},
    },
};
use tokio::net::UdpSocket;

use super::*;

/// A name server that answers one question with these records, or not at all.
async fn server(answer: Option<Vec<SRV>>) -> SocketAddr {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("is bound");
    let address = socket.local_addr().expect("is bound");
    tokio::spawn(async move {
        let mut buffer = [0; 4096];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let Some(records) = &answer else { continue };
            let question = Message::from_vec(&buffer[..length]).expect("is a question");
            let mut reply = Message::new(question.metadata.id, MessageType::Response, OpCode::Query);
            reply.metadata.response_code = ResponseCode::NoError;
            for query in &question.queries {
                for record in records {
                    reply.add_answer(DnsRecord::from_rdata(
                        query.name().clone(),
                        60,
                        RData::SRV(record.clone()),
                    ));
                }
                reply.add_query(query.clone());
            }
            let _ = socket.send_to(&reply.to_vec().expect("is written"), from).await;
        }
    });
    address
}

async fn ask_at(server: SocketAddr) -> Result<Vec<Record>, String> {
    let mut connection = ConnectionConfig::udp();
    connection.port = server.port();
    let server = NameServerConfig::new(server.ip(), true, vec![connection]);
    let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
    let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    ask(builder, "_squall._udp.example.org").await
}

fn srv(priority: u16, weight: u16, port: u16, target: &str) -> SRV {
    SRV::new(priority, weight, port, Name::from_ascii(target).expect("is a name"))
}

#[tokio::test]
async fn records_are_read_in_the_order_of_their_priority() {
    let records = vec![srv(20, 0, 4433, "c.example.org."), srv(10, 3, 4434, "A.example.org.")];
    let found = ask_at(server(Some(records)).await).await.expect("is answered");
    let host = |priority, weight, host: &str| Record { priority, weight, host: host.to_owned() };
    assert_eq!(found, [host(10, 3, "A.example.org:4434"), host(20, 0, "c.example.org:4433")]);
}

#[tokio::test]
async fn many_records_are_bounded_and_hosts_that_are_none_are_left_out() {
    let many = (0..20).map(|n| srv(100 - n, 1, 4433, &format!("h{n}.example.org."))).collect();
    let found = ask_at(server(Some(many)).await).await.expect("is answered");
    assert_eq!((found.len(), found[0].host.as_str()), (16, "h19.example.org:4433"));
    let none = vec![srv(0, 0, 4433, "."), srv(0, 0, 0, "a.example.org.")];
    assert_eq!(ask_at(server(Some(none)).await).await, Err("it has no SRV record of a host".to_owned()));
}

#[tokio::test]
async fn a_silent_server_is_not_waited_for_long() {
    let begin = std::time::Instant::now();
    let problem = ask_at(server(None).await).await.expect_err("nothing answers");
    assert!(!problem.is_empty() && begin.elapsed().as_secs() < 20, "{problem}");
}
