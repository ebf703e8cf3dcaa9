//! A custom scheduler: important blocks take the first path, the rest the last.

use std::{collections::BTreeMap, error::Error, sync::Arc, time::Duration};

use squall::sched::{Assignment, Context, Decision, Scheduler, WorkKind};
use squall::{Block, BlockOptions, Config, Connect, Endpoint, Identity, Outcome, PathId, Priority, Trust};

/// Blocks of priority 0 to 3 take the first path, all others the last, while these have room; for
/// example, a steady link and a free one. Repairs of losses take the fastest path with room.
struct TwoClasses;

impl Scheduler for TwoClasses {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        let Some(work) = cx.queue.next_in_line() else { return Decision::idle() };
        let important = cx.queue.get(work.block).is_some_and(|block| block.meta().priority < 4);
        let (path, reason) = match (work.kind, important) {
            (WorkKind::Repair, _) => (cx.fastest_with_room(), "repair"),
            (_, true) => (cx.paths.first(), "important: the first path"),
            (_, false) => (cx.paths.last(), "the rest: the last path"),
        };
        match path.filter(|path| path.has_room()).or(cx.fastest_with_room()) {
            Some(path) => Decision::Send(Assignment::new(work, path.id, reason)),
            None => Decision::idle(),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let identity = Identity::self_signed("localhost")?;
    let server = Endpoint::listen("127.0.0.1:0", &identity.server_tls()?, Config::default())?;
    let request = Connect::to(server.local_addrs()[0])
        .trust(Trust::Pinned(identity.fingerprint()))
        .over(["127.0.0.2".parse()?, "127.0.0.3".parse()?]);
    let config = Config::default().scheduler(Arc::new(|| Box::new(TwoClasses)));
    let session = squall::connect(request.config(config)).await?;

    let mut sent = Vec::new();
    for n in 0..200u8 {
        let priority = if n % 4 == 0 { Priority::FIRST } else { Priority::LAST };
        sent.push((
            priority,
            session.send(Block::with(vec![n; 20_000], BlockOptions::new().priority(priority))).await?,
        ));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    session.finish(Duration::from_secs(10)).await?;
    let mut bytes: BTreeMap<(Priority, PathId), u32> = BTreeMap::new();
    for (priority, block) in sent {
        let Outcome::Delivered { over, .. } = block.await else { continue };
        for (path, count) in over {
            *bytes.entry((priority, path)).or_default() += count;
        }
    }
    for ((priority, path), count) in bytes {
        println!("priority {priority}: {count} bytes over path {}", path.0);
    }
    Ok(())
}
