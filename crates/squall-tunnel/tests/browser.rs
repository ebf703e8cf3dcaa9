//! The status page in a real browser: its numbers, its stories, and its layout on a phone, in light
//! and dark.
//!
//! With `SQUALL_PICTURES=FOLDER` pictures of the page are written there.

mod common;

use std::{
    env, fs,
    net::UdpSocket,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use common::*;
use serde_json::{Value, json};
use squall_testkit::{browser::Browser, network::Network};
use squall_tunnel::{Tunnel, config::Side};

/// Width of a phone in pixels.
const PHONE: u32 = 390;
/// Width of a desktop in pixels.
const DESKTOP: u32 = 1280;

/// A long name of a flow, which must not widen the page.
const FLOW: &str = "camera-on-the-roof-of-the-north-stand";

/// Both ends, a network between them, and a stream of frames.
struct Site {
    entry: Tunnel,
    exit: Tunnel,
    network: Network,
    stream: Stream,
    _target: UdpSocket,
}

/// Sends two packets of a frame every 20 ms: 750 kbps.
struct Stream(Arc<AtomicBool>, thread::JoinHandle<()>);

impl Stream {
    fn to(port: u16) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (source, over) = (socket(), is_over.clone());
        let sending = thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                for _ in 0..2 {
                    source.send_to(&[7; 940], ("127.0.0.1", port)).expect("is sent");
                }
                thread::sleep(Duration::from_millis(20));
            }
        });
        Self(is_over, sending)
    }

    fn stop(self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.join().expect("ends");
    }
}

impl Site {
    async fn start() -> Self {
        let (target, port) = (socket(), reserve_port());
        let flow = flow_out(&format!("{FLOW}=udp://{}", target.local_addr().expect("is bound")));
        let mut exit = exit_config(0, None, vec![flow]);
        let any = Some("127.0.0.1:0".parse().expect("is an address"));
        exit.metrics = any;
        let exit = Tunnel::start(exit).await.expect("starts");
        let network = Network::before(exit.listening().expect("it listens"));
        let flow = flow_in(&format!("{FLOW}=udp://127.0.0.1:{port},latency=500ms"));
        let mut entry = entry_config(&exit, vec![flow]);
        entry.metrics = any;
        let Side::Connect(connect) = &mut entry.side else { panic!("it is an entry") };
        connect.to = vec![network.address().parse().expect("is an address")];
        let entry = Tunnel::start(entry).await.expect("starts");
        attached(&entry).await;
        until(&entry, "two paths", |status| status.sessions[0].paths.len() == 2).await;
        Self { entry, exit, network, stream: Stream::to(port), _target: target }
    }
}

fn address(end: &Tunnel) -> String {
    format!("http://{}/", end.metrics().expect("is served"))
}

/// Returns the numbers of the page right after a message of the feed, that message, and `/status`
/// shortly after.
const PAGE_AND_STATUS: &str = "(async () => {
    const before = status?.uptime_s;
    while (!status || status.uptime_s === before) await new Promise(done => setTimeout(done, 2));
    const feed = status, text = node => node.textContent.trim();
    const pairs = (nodes, name, value) => Object.fromEntries([...nodes].map(node => [name(node), value(node)]));
    const page = {
        title: text(document.getElementById('title')),
        live: text(document.getElementById('live')),
        summary: text(document.getElementById('summary')),
        paths: pairs(document.querySelectorAll('#paths .card'), card => text(card.querySelector('h3')), card => ({
            state: text(card.querySelector('.badge')),
            ...pairs(card.querySelectorAll('.figures > div'), one => text(one.children[0]), one => text(one.children[1])) })),
        flows: pairs(document.querySelectorAll('#flows tbody tr'), row => text(row.children[0]),
            row => pairs(row.children, cell => cell.dataset.label, text)),
        shares: pairs(document.querySelectorAll('#why .share'), row => text(row.children[1]), row => text(row.lastChild)),
    };
    return { page, feed, status: await (await fetch('status')).json() };
})()";

/// Parses a number of the page into units without prefix: `1.5 Mbps`, `20.3 ms` (in µs), `12.0 kB`,
/// `99.1 %`, `1,234`; 0 for none.
fn number(text: &str) -> f64 {
    let (digits, unit) = text.split_once(' ').unwrap_or((text, ""));
    let scale = match unit {
        "Mbps" | "MB" => 1e6,
        "kbps" | "kB" | "ms" => 1e3,
        "GB" => 1e9,
        "%" => 0.01,
        "" | "B" | "×" => 1.0,
        _ => panic!("the unit of '{text}'"),
    };
    if digits == "–" { 0.0 } else { digits.replace(',', "").parse::<f64>().expect(text) * scale }
}

/// Counters of a path: label, field of the status.
const COUNTERS: [(&str, &str); 5] = [
    ("lost packets", "lost_packets"),
    ("suspected", "suspicions"),
    ("repairs", "repair_bytes"),
    ("copies", "copy_bytes"),
    ("parity", "parity_bytes"),
];
const GAUGES: [(&str, &str); 5] = [
    ("sent", "sent_bps"),
    ("received", "received_bps"),
    ("round trip", "srtt_us"),
    ("smallest", "min_rtt_us"),
    ("window", "window"),
];

/// Returns differences between the page and the message that it shows, and counters of `/status`
/// below those of the message.
fn differences(both: &Value) -> Vec<String> {
    let (page, status) = (&both["page"], &both["feed"]);
    let mut found = Vec::new();
    let counters = |status: &Value| {
        let path = &status["sessions"][0]["paths"][0];
        COUNTERS.map(|(_, key)| path[key].as_u64().expect("is a number"))
    };
    let (shown, later) = (counters(status), counters(&both["status"]));
    if shown.iter().zip(later).any(|(shown, later)| *shown > later) {
        found.push(format!("the feed has {shown:?}, the status later {later:?}"));
    }
    let compare = |what: &str, shown: &Value, value: f64| {
        let shown = shown.as_str().unwrap_or_else(|| panic!("{what} is not shown: {page}"));
        // Half of the last digit shown: large numbers have no decimals.
        let (figure, unit) = shown.split_once(' ').unwrap_or((shown, ""));
        let decimals = figure.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let rounding = 0.51 * number(&format!("1 {unit}")) / 10_f64.powi(decimals as i32);
        let off = (number(shown) - value).abs();
        (off > rounding).then(|| format!("{what}: the page shows {shown}, the status has {value}"))
    };
    let paths = status["sessions"][0]["paths"].as_array().expect("there are paths");
    assert_eq!(page["paths"].as_object().expect("is a map").len(), paths.len(), "{page}");
    for path in paths {
        let name = path["name"].as_str().expect("has a name");
        let shown = &page["paths"][name];
        for (label, key) in COUNTERS.into_iter().chain(GAUGES) {
            let value = path[key].as_f64().expect("is a number");
            found.extend(compare(&format!("{name}, {label}"), &shown[label], value));
        }
        if shown["state"] != path["state"] {
            found.push(format!("{name}: {} is shown, not {}", shown["state"], path["state"]));
        }
    }
    let (flow, shown) = (&status["flows"][0], &page["flows"][FLOW]);
    for at in ["p50", "p95", "p99"] {
        found.extend(compare(at, &shown[at], flow["latency"][format!("{at}_us")].as_f64().unwrap_or(0.0)));
    }
    for row in flow["shares"].as_array().expect("is a list").iter().take(3) {
        let text = |key: &str| row[key].as_str().expect("is text").to_owned();
        let label = format!("{}, {}: {}", text("path"), text("kind"), text("reason"));
        let total: f64 =
            flow["shares"].as_array().into_iter().flatten().filter_map(|row| row["bytes"].as_f64()).sum();
        let part = row["bytes"].as_f64().expect("is a number") / total;
        let off = (number(page["shares"][&label].as_str().unwrap_or("0 %")) - part).abs();
        if off > 0.001 {
            found.push(format!("{label}: {}, not {part}", page["shares"][&label]));
        }
    }
    found
}

/// Formats blocks by class, and by outcome except `delivered`, as the page does: `12 data, 3
/// audio`.
fn blocks_in_words<'a>(all: impl Iterator<Item = (&'a String, u64)>) -> String {
    let words: Vec<_> =
        all.filter(|(_, blocks)| *blocks > 0).map(|(name, blocks)| format!("{blocks} {name}")).collect();
    if words.is_empty() { "0".to_owned() } else { words.join(", ") }
}

/// Waits until an expression is true in the page.
fn until_page(browser: &mut Browser, what: &str, expression: &str) {
    let begin = Instant::now();
    while browser.evaluate(expression) != json!(true) {
        assert!(
            begin.elapsed() < PATIENCE,
            "never {what}: {:?}",
            browser.evaluate("document.body.innerText")
        );
        thread::sleep(Duration::from_millis(50));
    }
}

/// Returns elements that are wider than the page or than their own box, and texts with less
/// contrast than WCAG 2.2 requires (1.4.3): 4.5 to 1.
const UNREADABLE: &str = "(() => {
    const found = [], width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > width) found.push('the page is ' + document.documentElement.scrollWidth + ' wide');
    const luminance = ([r, g, b]) => [r, g, b].map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const numbers = text => text.match(/[0-9.]+/g).map(Number);
    const back = node => {
        for (; node; node = node.parentElement) {
            const color = numbers(getComputedStyle(node).backgroundColor);
            if (color.length < 4 || color[3] > 0) return color;
        }
        return [255, 255, 255];
    };
    for (const node of document.body.querySelectorAll('*')) {
        const box = node.getBoundingClientRect(), name = node.tagName + ' ' + node.className.toString() + ' ' + node.textContent.slice(0, 40);
        if (!box.width || !box.height || !node.checkVisibility()) continue;
        if (box.right > width + 0.5 || box.left < -0.5) found.push('outside: ' + name);
        if (node.scrollWidth > node.clientWidth + 1 && node.clientWidth && getComputedStyle(node).display !== 'inline') found.push('too wide for its box: ' + name);
        const hasText = [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
        if (!hasText) continue;
        const style = getComputedStyle(node), [a, b] = [luminance(numbers(style.color)), luminance(back(node))].sort((x, y) => y - x);
        if ((a + 0.05) / (b + 0.05) < 4.5) found.push('contrast of ' + ((a + 0.05) / (b + 0.05)).toFixed(2) + ': ' + name);
    }
    return [...new Set(found)];
})()";

fn check_is_readable(browser: &mut Browser, end: &str) {
    for (width, is_dark) in [(DESKTOP, false), (DESKTOP, true), (PHONE, true), (PHONE, false)] {
        browser.set_window(width, 900, is_dark);
        let look = format!("{end} in {width} pixels, {}", if is_dark { "dark" } else { "light" });
        if let Some(folder) = env::var_os("SQUALL_PICTURES") {
            fs::create_dir_all(&folder).expect("is made");
            let colours = if is_dark { "dark" } else { "light" };
            browser.take_picture(
                &Path::new(&folder).join(format!("operators-{end}-{width}-{colours}.png")),
                None,
            );
        }
        let found = browser.evaluate(UNREADABLE);
        assert_eq!(found, json!([]), "{look}");
        let brightness =
            browser.evaluate("parseInt(getComputedStyle(document.body).backgroundColor.split('(')[1])");
        assert_eq!(brightness.as_u64().expect("is a number") < 64, is_dark, "{look}: {brightness}");
    }
    browser.set_window(DESKTOP, 900, false);
}

/// Checks the requests and complaints of a browser.
fn check_is_alone(browser: &Browser, address: &str) {
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
    // Chromium requests an icon by itself.
    let foreign: Vec<_> =
        browser.requests().filter(|url| !url.starts_with(address) && *url != "about:blank").collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}

/// Checks that the page shows the numbers of the feed while data flows. Waits until they meet a
/// condition.
fn check_numbers(browser: &mut Browser, holds: impl Fn(&Value) -> bool) {
    let begin = Instant::now();
    loop {
        let both = browser.evaluate(PAGE_AND_STATUS);
        assert_eq!(differences(&both), [""; 0], "{both:#}");
        assert_eq!(both["page"]["live"], "live");
        if holds(&both["feed"]) {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{both:#}");
    }
}

/// Compares the counters without traffic: none may differ.
fn check_counters(browser: &mut Browser) {
    let begin = Instant::now();
    // Once the last blocks have ended.
    let both = loop {
        let both = browser.evaluate(PAGE_AND_STATUS);
        if both["feed"]["flows"][0]["pending"] == 0 && both["feed"]["flows"][0]["idle_s"].as_f64() > Some(2.0)
        {
            break both;
        }
        assert!(begin.elapsed() < PATIENCE, "never at rest: {both:#}");
    };
    let (flow, shown) = (&both["feed"]["flows"][0], &both["page"]["flows"][FLOW]);
    let outcomes = flow["sent"]["data"]["outcomes"].as_object().expect("blocks have ended");
    let all =
        outcomes.iter().map(|(outcome, amount)| (outcome, amount["blocks"].as_u64().expect("is a number")));
    let total = all.clone().map(|(_, blocks)| blocks).sum::<u64>();
    let plain = |label: &str| shown[label].as_str().expect("is shown").replace(',', "").replace("  ", " ");
    assert_eq!(plain("blocks"), format!("{total} data"));
    let lost = blocks_in_words(all.filter(|(outcome, _)| *outcome != "delivered"));
    assert_ne!(lost, "0", "{outcomes:?}");
    assert_eq!(plain("not delivered"), lost.replace(',', ""));
    for path in both["feed"]["sessions"][0]["paths"].as_array().expect("there are paths") {
        let shown = &both["page"]["paths"][path["name"].as_str().expect("has a name")];
        let suspicions = format!("{} ×", path["suspicions"]);
        assert_eq!(
            (&shown["suspected"], &shown["lost packets"]),
            (&json!(suspicions), &json!(path["lost_packets"].to_string()))
        );
    }
}

/// Opens the first story of a lost block with steps; returns its number, the boxes of data and of
/// the deadline as shares of the strip's width, and the words of the steps.
const STRIP: &str = "(() => {
    const story = document.querySelector('#why details:has(.badge.bad):has(svg.time rect)');
    if (!story.open) story.querySelector('summary').click();
    const strip = story.querySelector('svg.time'), all = strip.getBoundingClientRect();
    const box = node => {
        const one = node.getBoundingClientRect();
        return { from: (one.left - all.left) / all.width, to: (one.right - all.left) / all.width, height: one.height,
            color: getComputedStyle(node).color };
    };
    return { name: story.querySelector('summary').dataset.keep, cause: story.querySelector('summary div').textContent,
        width: all.width, height: all.height, data: [...strip.querySelectorAll('rect')].map(box),
        deadline: box(strip.querySelector('line.bad')), lines: story.querySelectorAll('li').length };
})()";

/// Checks that the story of a lost block is drawn as in `/why`.
fn check_story(browser: &mut Browser) {
    until_page(
        browser,
        "a lost block",
        "document.querySelector('#why details:has(.badge.bad) svg.time rect') !== null",
    );
    let strip = browser.evaluate(STRIP);
    let name = strip["name"].as_str().expect("has a name");
    let number: u64 = name.rsplit_once(' ').expect("flow and number").1.parse().expect("is a number");
    let why = browser.evaluate(&format!("fetch('why?flow={FLOW}').then(answer => answer.json())"));
    let stories = why["stories"].as_array().expect("is a list");
    let story = stories
        .iter()
        .find(|story| story["number"] == number)
        .unwrap_or_else(|| panic!("{number} of {why:#}"));
    assert_eq!(strip["cause"], story["cause"]);
    let steps = story["steps"].as_array().expect("is a list");
    let data = strip["data"].as_array().expect("is a list");
    assert_eq!(data.len(), steps.len(), "{strip:#}\n{story:#}");
    // In addition to the steps, one line each for the beginning and for the end.
    assert_eq!(strip["lines"], steps.len() + 2 + usize::from(story["omitted"] != 0));
    let at = |value: &Value| value.as_f64().expect("is a number");
    let latency = at(&story["latency_ms"]) * 1e3;
    let whole = latency.max(at(&story["took_us"]));
    let near = |shown: &Value, share: f64| (at(shown) - share.min(298.0 / 300.0)).abs() < 0.01;
    assert!(at(&strip["width"]) > 100.0 && at(&strip["height"]) >= 16.0, "{strip:#}");
    for (step, shown) in steps.iter().zip(data) {
        assert!(near(&shown["from"], at(&step["at_us"]) / whole), "{step} is drawn as {shown}");
        let is_seen = at(&shown["to"]) - at(&shown["from"]) > 0.005 && at(&shown["height"]) >= 5.0;
        assert!(is_seen && shown["color"] != "rgba(0, 0, 0, 0)", "{step} is drawn as {shown}");
    }
    assert!((at(&strip["deadline"]["from"]) - latency / whole).abs() < 0.02, "{strip:#}");
}

#[test]
fn a_browser_shows_the_numbers_of_the_status_and_the_story_of_a_lost_block() {
    within(async || {
        let Some(mut browser) = Browser::start("operators") else { return };
        let Site { entry: entry_end, exit: exit_end, network, stream, _target } = Site::start().await;
        let (entry, exit) = (address(&entry_end), address(&exit_end));
        // The browser blocks its thread.
        tokio::task::block_in_place(|| {
            browser.set_window(DESKTOP, 900, false);
            browser.load(&exit);
            until_page(&mut browser, "live", "document.querySelectorAll('#flows tbody tr').length === 1");
            check_numbers(&mut browser, |status| status["flows"][0]["latency"]["p99_us"].as_u64() > Some(0));
            check_is_readable(&mut browser, "exit");
            check_is_alone(&browser, &exit);
            browser.load(&entry);
            until_page(&mut browser, "live", "document.querySelectorAll('#flows tbody tr').length === 1");
            let sends = |status: &Value| status["sessions"][0]["paths"][0]["sent_bps"].as_u64() > Some(0);
            check_numbers(&mut browser, sends);
            network.set_gone(true);
            check_story(&mut browser);
            network.set_gone(false);
            check_is_readable(&mut browser, "entry");
            stream.stop();
            check_counters(&mut browser);
        });
        entry_end.stop().await;
        exit_end.stop().await;
    });
}
