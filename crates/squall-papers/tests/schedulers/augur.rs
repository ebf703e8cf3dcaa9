//! AUGUR and its two halves: Wi-Fi is path 0, cellular path 1.

mod backups;
mod play;
mod retransmission;
mod switch;

use squall_sched::{Span, Time, WorkKind};
use squall_units::short::ms;

use crate::stage::{CHUNK, Packet, Stage, paths_of};

const ALL: [&str; 3] = ["augur", "augur-retransmit", "augur-switch"];

/// Round trips of 20 and 60 ms.
fn stage(scheduler: &str) -> Stage {
    let mut stage = Stage::new(scheduler, &[(20, 1000), (60, 1000)]);
    stage.path(1).metered = true;
    stage
}

/// A stage after 100 frames one after the other: 77 took 20 ms, 20 took 50 ms, 3 stalled for 300
/// ms.
///
/// X₁ with δ = 3.5: 10.5 frames may be repeated, so those of 50 ms may not: 51 ms. X₂ is sampled
/// each 10 ms. Stalls were sampled 90 times, so 315 samples may be acted on: 75 at more than 50 ms,
/// 23 at each of 50, 40 and 30 ms and 100 at 20 ms make 244; the 100 at 10 ms are too many: 11 ms.
/// But half of the frames take 20 ms: 21 ms.
fn trained(scheduler: &str) -> Stage {
    trained_with(scheduler, |_| ())
}

/// As [`trained`], with other paths.
fn trained_with(scheduler: &str, change: impl Fn(&mut Stage)) -> Stage {
    let mut stage = stage(scheduler);
    change(&mut stage);
    for frame in 0..100 {
        let took = match frame {
            30 | 60 | 90 => 300,
            n if n % 5 == 4 => 50,
            _ => 20,
        };
        let block = stage.reliable(CHUNK);
        let sent = stage.send_all();
        assert_eq!(paths_of(&sent), [0]);
        stage.now += ms(took);
        stage.arrive(&sent[0]);
        stage.remove(block);
    }
    stage
}

/// Sends until `millis` after `start`, with a call whenever the scheduler requests one; returns the
/// packets with their times after `start`.
fn run(stage: &mut Stage, start: Time, millis: u64) -> Vec<(Span, Packet)> {
    let end = start + ms(millis);
    let mut all = Vec::new();
    loop {
        all.extend(stage.send_all().into_iter().map(|packet| (stage.now - start, packet)));
        let wake = stage.wake.unwrap_or(Time::MAX);
        assert!(wake > stage.now, "wakes itself at once");
        if stage.now == end {
            return all;
        }
        stage.now = wake.min(end);
    }
}

fn copies(sent: &[(Span, Packet)]) -> Vec<(Span, u32, u8)> {
    let copies = sent.iter().filter(|(_, p)| p.kind == WorkKind::Copy);
    copies.map(|(at, p)| (*at, p.range.start / CHUNK, p.path)).collect()
}

#[test]
fn options_are_checked() {
    let error = |text| crate::registry().build(text).err().expect("is refused").to_string();
    assert_eq!(
        error("augur(primary=8)"),
        "scheduler option primary=8: must be auto or a path id from 0 to 7"
    );
    assert_eq!(
        error("augur-switch(primary=1, backup=1)"),
        "scheduler option backup=1: must differ from the primary path"
    );
    assert_eq!(error("augur(stalls=x)"), "scheduler option stalls=x: must be late or reported");
    assert_eq!(error("augur(rtt=x)"), "scheduler option rtt=x: must be latest or silence");
    assert_eq!(error("augur(learn=x)"), "scheduler option learn=x: must be end or primary");
    assert_eq!(error("augur(stall=0)"), "scheduler option stall=0: must be from 1 to 60000");
    assert_eq!(error("augur(delta=nan)"), "scheduler option delta=nan: must be from 0 to 1000");
    assert_eq!(
        error("augur(delta=2;1:-1)"),
        "scheduler option delta=2;1:-1: in '1:-1': must be from 0 to 1000"
    );
    assert_eq!(error("augur(delta=8:1)"), "scheduler option delta=8:1: in '8:1': a path id is from 0 to 7");
    assert_eq!(error("augur(delta=1:1;1:2)"), "scheduler option delta=1:1;1:2: in '1:2': it is given twice");
    assert_eq!(error("augur(rescue=x)"), "scheduler option rescue=x: must be all, probe or frame");
    assert_eq!(error("augur(playing=0)"), "scheduler option playing=0: must be from 0.01 to 24");
    assert_eq!(error("augur(budget=500MB, delta=2)"), "scheduler option delta=2: is what budget decides");
    assert_eq!(
        error("augur-switch(budget=500MB;2:1GB, delta=2:2)"),
        "scheduler option delta=2:2: is what budget decides"
    );
    assert!(error("augur(budget=1:much)").starts_with("scheduler option budget=1:much: in '1:much': "));
    assert_eq!(error("augur(users=x)"), "scheduler option users=x: must be paper or learned");
    assert_eq!(
        error("augur(users=learned, delta=2)"),
        "scheduler option users=learned: has no effect without a budget"
    );
    for taken in ["budget=500MB, playing=2", "budget=1:1GB, delta=2;2:0", "budget=1GB;2:none, users=learned"]
    {
        assert!(crate::registry().build(&format!("augur({taken})")).is_ok(), "{taken}");
    }
    assert!(error("augur-retransmit(sample=10)").contains("has no option 'sample'"));
}

#[test]
fn all_goes_on_the_unmetered_path_while_nothing_is_known() {
    for name in ALL {
        let mut stage = stage(name);
        stage.path(0).srtt = ms(300);
        let block = stage.reliable(2 * CHUNK);
        let sent = run(&mut stage, Time::EPOCH, 5000);
        assert_eq!(sent.iter().map(|(_, p)| p.path).collect::<Vec<_>>(), [0, 0], "{name}");
        let lost = sent[1].1.clone();
        stage.lose(&lost);
        let repair = stage.send().expect("a repair");
        assert_eq!((repair.block, repair.kind, repair.path), (block, WorkKind::Repair, 0), "{name}");
    }
}

#[test]
fn a_single_path_is_all_there_is() {
    for name in ALL {
        for metered in [false, true] {
            let mut stage = Stage::new(name, &[(20, 1000)]);
            stage.path(0).metered = metered;
            stage.reliable(3 * CHUNK);
            assert_eq!(run(&mut stage, Time::EPOCH, 1000).len(), 3, "{name}");
            assert!(stage.probed.is_empty(), "{name}");
        }
    }
}

#[test]
fn the_backup_is_probed_every_50_ms_while_data_is_queued() {
    let mut stage = stage("augur");
    stage.reliable(CHUNK);
    run(&mut stage, Time::EPOCH, 500);
    assert_eq!(stage.probed, [1; 11]);
    stage.path(1).usable = false;
    let start = stage.now;
    run(&mut stage, start, 500);
    assert_eq!(stage.probed.len(), 11, "the session itself probes what is silent");
}

#[test]
fn each_half_does_its_own_only() {
    let mut retransmit = trained("augur-retransmit");
    retransmit.path(0).latest_rtt = ms(70);
    let start = retransmit.now;
    for at in [0, 100, 200, 300] {
        retransmit.now = start + ms(at);
        retransmit.reliable(CHUNK);
        let sent = retransmit.send_all();
        assert_eq!(sent.iter().find(|p| p.kind == WorkKind::Fresh).map(|p| p.path), Some(0));
    }
    let mut switch = trained("augur-switch");
    let start = switch.now;
    switch.path(1).latest_rtt = ms(2000);
    switch.reliable(CHUNK);
    assert_eq!(copies(&run(&mut switch, start, 1000)), []);
}
