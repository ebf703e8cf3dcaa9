use std::net::{Ipv4Addr, SocketAddr};

use domain::{
    base::{Message, MessageBuilder, iana::Rcode, name::Name},
    rdata::Srv,
    resolv::stub::conf::{ResolvConf, ServerConf, Transport},
};
use tokio::net::UdpSocket;

use super::*;

type Answer = Result<Vec<Srv<Name<Vec<u8>>>>, Rcode>;

/// Starts a name server that gives this answer, or none.
async fn server(answer: Option<Answer>) -> SocketAddr {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("is bound");
    let address = socket.local_addr().expect("is bound");
    tokio::spawn(async move {
        let mut buffer = [0; 4096];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let Some(answer) = &answer else { continue };
            let question = Message::from_slice(&buffer[..length]).expect("is a question");
            let code = answer.as_ref().map_or_else(|code| *code, |_| Rcode::NOERROR);
            let reply = MessageBuilder::new_vec().start_answer(question, code);
            let mut reply = reply.expect("has room");
            for record in answer.iter().flatten() {
                let name = question.sole_question().expect("asks for a name").into_qname();
                reply.push((name, 60, record.clone())).expect("has room");
            }
            let _ = socket.send_to(&reply.finish(), from).await;
        }
    });
    address
}

async fn ask_at(server: SocketAddr) -> Result<Vec<Record>, String> {
    let mut system = ResolvConf::new();
    system.servers.push(ServerConf::new(server, Transport::UdpTcp));
    ask(system, "_squall._udp.example.org").await
}

fn srv(priority: u16, weight: u16, port: u16, target: &str) -> Srv<Name<Vec<u8>>> {
    Srv::new(priority, weight, port, target.parse().expect("is a name"))
}

#[tokio::test]
async fn records_are_read_in_the_order_of_their_priority() {
    let records = vec![srv(20, 0, 4433, "c.example.org."), srv(10, 3, 4434, "A.example.org.")];
    let found = ask_at(server(Some(Ok(records))).await).await.expect("is answered");
    let host = |priority, weight, host: &str| Record { priority, weight, host: host.to_owned() };
    assert_eq!(found, [host(10, 3, "A.example.org:4434"), host(20, 0, "c.example.org:4433")]);
}

#[tokio::test]
async fn many_records_are_bounded_and_hosts_that_are_none_are_left_out() {
    let many = (0..20).map(|n| srv(100 - n, 1, 4433, &format!("h{n}.example.org."))).collect();
    let found = ask_at(server(Some(Ok(many))).await).await.expect("is answered");
    assert_eq!((found.len(), found[0].host.as_str()), (16, "h19.example.org:4433"));
    let none = vec![srv(0, 0, 4433, "."), srv(0, 0, 0, "a.example.org.")];
    assert_eq!(ask_at(server(Some(Ok(none))).await).await, Err("it has no SRV record of a host".to_owned()));
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_said_to() {
    let problem = ask_at(server(Some(Err(Rcode::NXDOMAIN))).await).await;
    assert_eq!(problem, Err("there is no such name".to_owned()));
    let problem = ask_at(server(Some(Err(Rcode::REFUSED))).await).await;
    assert_eq!(problem, Err("the name server answers with REFUSED".to_owned()));
}

#[tokio::test]
async fn a_silent_server_is_not_waited_for_long() {
    let begin = std::time::Instant::now();
    let problem = ask_at(server(None).await).await.expect_err("nothing answers");
    assert_eq!(problem, "no name server answers");
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
}
