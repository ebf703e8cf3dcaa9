//! A custom congestion controller: the window is what the leased rate carries in a round trip.

use std::error::Error;

use squall::congestion::{Ack, Arrival, Controller, ControllerFactory, NewPath};
use squall::sched::Time;
use squall::{Block, Config, CongestionControl, Connect, Endpoint, Identity, Trust};

/// A leased line with a known, constant rate in bits per second.
struct Leased(u64);

impl ControllerFactory for Leased {
    fn build(&self, path: &NewPath<'_>) -> Box<dyn Controller> {
        Box::new(OnePath { rate: self.0, window: 10 * path.mtu })
    }
}

#[derive(Debug)]
struct OnePath {
    rate: u64,
    window: u64,
}

impl Controller for OnePath {
    fn on_sent(&mut self, _now: Time, _packet: u64, _bytes: u64) {}

    fn on_ack(&mut self, now: Time, ack: &Ack) {
        self.window = self.window.max(self.rate / 8 * (now - ack.sent).micros() / 1_000_000);
    }

    fn on_end_acks(&mut self, _now: Time, _in_flight: u64) {}
    fn on_arrival(&mut self, _now: Time, _arrival: Arrival) {}
    fn on_loss(&mut self, _now: Time, _packet: u64, _bytes: u64) {}
    fn on_persistent_congestion(&mut self, _now: Time) {}
    fn on_mtu(&mut self, _bytes: u64) {}

    fn window(&self) -> u64 {
        self.window
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.rate)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let identity = Identity::self_signed("localhost")?;
    let server = Endpoint::listen("127.0.0.1:0", &identity.server_tls()?, Config::default())?;
    let request = Connect::to(server.local_addrs()[0]).trust(Trust::Pinned(identity.fingerprint()));
    let congestion = CongestionControl::new("leased", Leased(20_000_000));
    let session = squall::connect(request.config(Config::default().congestion(congestion))).await?;

    let begin = std::time::Instant::now();
    session.send(Block::new(vec![0; 5_000_000])).await?.await;
    println!("40 Mbit in {:.1} s at 20 Mbps", begin.elapsed().as_secs_f64());
    Ok(())
}
