//! The dashboard and the alerts of `dist/` use existing metrics and labels, and the containers find
//! both.

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    str::FromStr as _,
    time::{Duration, Instant},
};

use common::*;
use serde_json::Value;
use squall_tunnel::{
    Tunnel,
    config::{TenantConfig, TenantLimits, TokenHash},
};
use squall_units::Size;

/// Labels that Prometheus adds.
const ADDED: [&str; 2] = ["instance", "job"];

/// Metrics with their labels, as served by two ends with a metered path.
struct Scrape(BTreeMap<String, BTreeSet<String>>);

impl Scrape {
    fn of(texts: &[String]) -> Self {
        let mut metrics: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in texts.iter().flat_map(|text| text.lines()) {
            if let Some(family) = line.strip_prefix("# TYPE ") {
                let (name, kind) = family.split_once(' ').expect("has a kind");
                if kind != "histogram" {
                    metrics.entry(name.to_owned()).or_default();
                }
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().expect("has a name");
                let labels = line.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}'));
                let labels = labels.map(|(labels, _)| matchers(labels)).unwrap_or_default();
                let all = metrics.entry(name.to_owned()).or_default();
                all.extend(labels.into_iter().map(|(label, _)| label));
            }
        }
        // This machine has no radio, so the metric has a description but no sample.
        let path = metrics["squall_tunnel_path_active"].clone();
        metrics.insert("squall_tunnel_path_signal_quality".to_owned(), path);
        Self(metrics)
    }

    fn has(&self, metric: &str, label: &str) -> bool {
        ADDED.contains(&label) || self.0.get(metric).is_some_and(|labels| labels.contains(label))
    }
}

/// Returns labels and values of `a="b",c=~"d"`.
fn matchers(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut parts = text.split('"');
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        let name = name.trim_matches(|c: char| " ,=~!".contains(c));
        found.push((name.to_owned(), value.to_owned()));
    }
    found
}

/// Returns the text within the bracket that it begins with, and the rest.
fn bracketed(text: &str) -> (&str, &str) {
    let (mut depth, mut quoted) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '(' | '{' | '[' if !quoted => depth += 1,
            ')' | '}' | ']' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (&text[1..at], &text[at + 1..]);
        }
    }
    panic!("not closed: {text}");
}

/// An expression: its metrics, the labels of each, and the labels that group others.
#[derive(Default)]
struct Expression {
    metrics: BTreeSet<String>,
    /// Metric, label, value.
    matchers: Vec<(String, String, String)>,
    /// Labels after `by`, with the metrics that they group.
    grouped: Vec<(Vec<String>, BTreeSet<String>)>,
    /// Labels after `on`.
    joined: Vec<String>,
}

impl Expression {
    fn parse(text: &str) -> Self {
        let mut all = Self::default();
        all.read(text);
        all
    }

    fn read(&mut self, mut text: &str) {
        while let Some(first) = text.chars().next() {
            if first == '[' {
                text = bracketed(text).1;
                continue;
            }
            let ends = |c: char| !c.is_ascii_alphanumeric() && c != '_';
            let length = text.find(ends).unwrap_or(text.len());
            if length == 0 {
                text = &text[first.len_utf8()..];
                continue;
            }
            let (word, rest) = text.split_at(length);
            text = rest.trim_start();
            match word {
                "by" | "on" => {
                    let (labels, rest) = bracketed(text);
                    let labels = labels.split(',').map(|label| label.trim().to_owned()).collect::<Vec<_>>();
                    text = rest.trim_start();
                    if word == "by" {
                        self.grouped.push((labels, Self::parse(bracketed(text).0).metrics));
                    } else {
                        self.joined.extend(labels);
                    }
                }
                "and" | "or" | "unless" | "avg" | "max" | "min" | "sum" => {}
                _ if word.starts_with(|c: char| c.is_ascii_digit()) || text.starts_with('(') => {}
                metric => {
                    self.metrics.insert(metric.to_owned());
                    if text.starts_with('{') {
                        let (labels, rest) = bracketed(text);
                        let named = |(label, value)| (metric.to_owned(), label, value);
                        self.matchers.extend(matchers(labels).into_iter().map(named));
                        text = rest;
                    }
                }
            }
        }
    }

    /// Returns names and labels that no tunnel has.
    fn mistakes(&self, scrape: &Scrape, text: &str) -> Vec<String> {
        let mut mistakes = Vec::new();
        // `up` is from Prometheus itself.
        for metric in self.metrics.iter().filter(|name| *name != "up" && !scrape.0.contains_key(*name)) {
            mistakes.push(format!("no metric {metric}: {text}"));
        }
        let matched = self.matchers.iter().map(|(metric, label, _)| (metric, label));
        let grouped = self.grouped.iter().flat_map(|(labels, metrics)| {
            metrics.iter().flat_map(move |metric| labels.iter().map(move |label| (metric, label)))
        });
        for (metric, label) in matched.chain(grouped).filter(|(metric, label)| !scrape.has(metric, label)) {
            mistakes.push(format!("{metric} has no label {label}: {text}"));
        }
        for label in self.joined.iter().filter(|label| !self.any_has(scrape, label)) {
            mistakes.push(format!("no metric has a label {label}: {text}"));
        }
        mistakes
    }

    fn any_has(&self, scrape: &Scrape, label: &str) -> bool {
        ADDED.contains(&label) || self.metrics.iter().any(|metric| scrape.has(metric, label))
    }
}

/// Returns the labels in `{{name}}` or `{{ $labels.name }}`.
fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    let inside = text.split("{{").skip(1).filter_map(|rest| rest.split("}}").next()).map(str::trim);
    inside.filter(|name| !name.starts_with("$value")).map(|name| name.trim_start_matches("$labels."))
}

fn read(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(name)).expect("can be read")
}

fn metrics(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("is set");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("is text");
    answer.split_once("\r\n\r\n").expect("has a head").1.to_owned()
}

/// Returns the metrics of both ends, after a datagram has arrived.
async fn scrape() -> Scrape {
    let (source, target, port) = (socket(), socket(), reserve_port());
    let to = target.local_addr().expect("is bound");
    let any = Some("127.0.0.1:0".parse().expect("is an address"));
    let mut config = exit_config(0, None, vec![flow_out(&format!("x=udp://{to}"))]);
    config.metrics = any;
    // Without a limit its metric would have no sample.
    let token = token().hash();
    let limits = TenantLimits { bytes: Some(Size::from_bytes(1_000_000)), ..TenantLimits::default() };
    let token = TokenHash::from_str(&token.to_string().chars().rev().collect::<String>()).expect("is a hash");
    config.tenants.list = vec![TenantConfig { name: "acme".to_owned(), token, flows: Vec::new(), limits }];
    let state = tempfile::tempdir().expect("is made");
    config.tenants.state = Some(state.path().to_owned());
    let exit = Tunnel::start(config).await.expect("starts");
    let mut config = entry_config(&exit, vec![flow_in(&format!("x=udp://127.0.0.1:{port}"))]);
    config.metrics = any;
    config.scheduler = "squall(cap=1MB)".to_owned();
    let entry = Tunnel::start(config).await.expect("starts");
    attached(&entry).await;
    source.send_to(b"a frame", ("127.0.0.1", port)).expect("is sent");
    let delivered = |status: &squall_tunnel::Status| {
        let sent = status.flows[0].sent.values().any(|sent| sent.outcomes.contains_key("delivered"));
        sent && status.sessions[0].paths.len() == 2
    };
    until(&entry, "delivered, with two paths", delivered).await;
    let addresses = [&entry, &exit].map(|end| end.metrics().expect("is served"));
    let texts = tokio::task::spawn_blocking(move || addresses.map(metrics)).await.expect("ends");
    entry.stop().await;
    exit.stop().await;
    Scrape::of(&texts)
}

/// Returns all expressions of the dashboard with their legends, and those of its variables.
fn dashboard_expressions(dashboard: &Value) -> Vec<(String, String)> {
    let panels = dashboard["panels"].as_array().expect("has panels");
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let text = |value: &Value| value.as_str().expect("is text").to_owned();
    targets.map(|target| (text(&target["expr"]), text(&target["legendFormat"]))).collect()
}

/// Returns the expressions of the alerts, each with its name and the texts that follow.
fn alerts(rules: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for rule in rules.split("- alert: ").skip(1) {
        let (name, rest) = rule.split_once('\n').expect("has an expression");
        let (expression, texts) = rest.split_once("labels:").expect("has labels");
        let expression = expression.split("for:").next().expect("has an expression");
        let expression = expression.trim().trim_start_matches("expr:").trim().trim_start_matches(">-");
        found.push((
            name.to_owned(),
            expression.split_whitespace().collect::<Vec<_>>().join(" "),
            texts.to_owned(),
        ));
    }
    found
}

#[test]
fn dashboard_and_alerts_use_metrics_and_labels_that_tunnels_have() {
    within(async || {
        let scrape = scrape().await;
        let dashboard: Value = serde_json::from_str(&read("dist/grafana/squall.json")).expect("is JSON");
        let queries = dashboard_expressions(&dashboard);
        let alerts = alerts(&read("dist/prometheus/squall-alerts.yml"));
        assert!(
            queries.len() > 30 && alerts.len() > 15,
            "{} queries, {} alerts",
            queries.len(),
            alerts.len()
        );

        let alerts = alerts.into_iter().map(|(_, expression, texts)| (expression, texts));
        let mut mistakes = Vec::new();
        for (text, labelled) in queries.into_iter().chain(alerts) {
            let expression = Expression::parse(&text);
            assert!(!expression.metrics.is_empty(), "no metric in {text}");
            mistakes.extend(expression.mistakes(&scrape, &text));
            let unknown = placeholders(&labelled).filter(|label| !expression.any_has(&scrape, label));
            mistakes.extend(unknown.map(|label| format!("no label {label} for {labelled}: {text}")));
        }
        assert!(mistakes.is_empty(), "\n{}", mistakes.join("\n"));
    });
}

#[test]
fn variables_of_the_dashboard_are_defined_and_read_labels_that_tunnels_have() {
    within(async || {
        let scrape = scrape().await;
        let dashboard: Value = serde_json::from_str(&read("dist/grafana/squall.json")).expect("is JSON");
        let mut defined = vec!["__rate_interval", "__range"];
        for variable in dashboard["templating"]["list"].as_array().expect("has variables") {
            defined.push(variable["name"].as_str().expect("has a name"));
            let Some(definition) = variable["definition"].as_str() else { continue };
            let inside = definition.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
            let (metric, label) = inside.and_then(|inside| inside.rsplit_once(", ")).expect("has a label");
            let expression = Expression::parse(metric);
            assert_eq!(expression.mistakes(&scrape, definition), [""; 0]);
            assert!(expression.any_has(&scrape, label), "{definition}");
        }
        for (text, _) in dashboard_expressions(&dashboard) {
            for used in text.split('$').skip(1) {
                let name = used.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next();
                assert!(defined.contains(&name.expect("has a name")), "${used} is not defined: {text}");
            }
        }
    });
}

/// Outcomes and limits are listed next to the metrics.
#[test]
fn values_that_queries_compare_with_are_documented() {
    let documented = read("docs/tunnel.md");
    let dashboard: Value = serde_json::from_str(&read("dist/grafana/squall.json")).expect("is JSON");
    let queries = dashboard_expressions(&dashboard).into_iter().map(|(text, _)| text);
    let rules = alerts(&read("dist/prometheus/squall-alerts.yml")).into_iter().map(|(_, text, _)| text);
    for text in queries.chain(rules) {
        for (_, label, value) in Expression::parse(&text).matchers {
            let fixed = ["class", "outcome", "limit"].contains(&label.as_str());
            assert!(!fixed || documented.contains(&format!("`{value}`")), "{label} {value}: {text}");
        }
    }
}

#[test]
fn every_alert_has_a_case_that_raises_it_and_one_that_does_not() {
    let cases = read("dist/prometheus/squall-alerts-test.yml");
    for (name, ..) in alerts(&read("dist/prometheus/squall-alerts.yml")) {
        let (raised, silent) = (format!("alertname: {name}\n"), format!("alertname: {name}}}"));
        assert!(cases.contains(&raised) && cases.contains(&silent), "{name}");
    }
}

/// If a mounted file is missing, Grafana and Prometheus start, but show nothing.
#[test]
fn files_that_the_compose_file_mounts_exist() {
    let compose = read("dist/container/compose.yaml");
    let mounts = compose.lines().filter_map(|line| line.trim_start().strip_prefix("- .")?.split_once(':'));
    let mounts: Vec<_> = mounts.map(|(file, to)| (format!("dist/container/.{file}"), to)).collect();
    assert!(mounts.len() > 5, "{mounts:?}");
    for (file, _) in &mounts {
        assert!(!read(file).is_empty(), "{file}");
    }
    let folder = read("dist/container/grafana/dashboards.yml");
    let folder = folder.split("path: ").nth(1).expect("has a folder").trim();
    let (_, dashboard) = mounts.iter().find(|(file, _)| file.ends_with("squall.json")).expect("is mounted");
    assert_eq!(dashboard.strip_suffix(":ro"), Some(&*format!("{folder}/squall.json")));
}

/// Returns series of sessions and paths with their values, except those of `path_info`.
fn series(text: &str) -> BTreeMap<String, f64> {
    let samples = text.lines().filter(|line| !line.starts_with('#') && !line.contains("path_info{"));
    let of_sessions =
        samples.filter(|line| line.contains("tunnel_path_") || line.contains("tunnel_session_"));
    let pairs = of_sessions.map(|line| line.rsplit_once(' ').expect("has a value"));
    pairs.map(|(series, value)| (series.to_owned(), value.parse().expect("a number"))).collect()
}

/// Returns all samples of a tunnel, once it has a session with two paths that have carried data.
async fn samples(tunnel: &Tunnel) -> String {
    until(tunnel, "over two paths", |status| {
        let agreed: Vec<_> = status.sessions.iter().filter(|session| session.agreed).collect();
        agreed.len() == 1
            && agreed[0].paths.len() == 2
            && agreed[0].paths.iter().all(|path| path.received_bytes > 0 && path.state == "active")
    })
    .await;
    let address = tunnel.metrics().expect("is served");
    tokio::task::spawn_blocking(move || metrics(address)).await.expect("ends")
}

/// Starts a tunnel at the ports of one that has ended, whose tasks release them a moment later.
async fn started(config: squall_tunnel::Config) -> Tunnel {
    let begin = Instant::now();
    loop {
        match Tunnel::start(config.clone()).await {
            Ok(tunnel) => return tunnel,
            Err(error) => assert!(begin.elapsed() < PATIENCE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn reconnections_make_no_series_and_counters_never_fall() {
    within(async || {
        let folder = tempfile::tempdir().expect("is made");
        let (port, state) = (reserve_port(), folder.path().join("id.pem"));
        let any = Some("127.0.0.1:0".parse().expect("is an address"));
        let exit_config = || {
            let config = exit_config(port, Some(&state), vec![flow_out("x=udp://127.0.0.1:9")]);
            squall_tunnel::Config { metrics: any, ..config }
        };
        let mut exit = Tunnel::start(exit_config()).await.expect("starts");
        let flow = format!("x=udp://127.0.0.1:{}", reserve_port());
        let entry_config = |exit: &Tunnel| squall_tunnel::Config {
            metrics: any,
            ..entry_config(exit, vec![flow_in(&flow)])
        };
        let mut entry = Tunnel::start(entry_config(&exit)).await.expect("starts");

        // The exit is started again.
        let mut before = series(&samples(&entry).await);
        assert!(before.len() > 40, "{before:#?}");
        for number in 2..=4 {
            exit.stop().await;
            exit = started(exit_config()).await;
            until(&entry, "connected again", |status| status.sessions_opened == number).await;
            let text = samples(&entry).await;
            let now = series(&text);
            assert_eq!(now.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
            for (series, value) in before.iter().filter(|(series, _)| series.contains("_total{")) {
                assert!(now[series] >= *value, "{series} fell from {value} to {}", now[series]);
            }
            before = now;
        }

        // The entry is started again.
        let mut before = series(&samples(&exit).await);
        for _ in 0..3 {
            entry.stop().await;
            until(&exit, "without a session", |status| status.sessions.is_empty()).await;
            entry = started(entry_config(&exit)).await;
            let now = series(&samples(&exit).await);
            assert_eq!(now.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
            let sent = "squall_tunnel_path_sent_bytes_total{slot=\"1\",path=\"0\"}";
            assert!(now[sent] > before[sent], "{} after {}", now[sent], before[sent]);
            before = now;
        }
        entry.stop().await;
        exit.stop().await;
    });
}

/// Like `promtool check metrics`: a description under the name of every metric, and base units.
#[test]
fn metrics_have_a_description_and_base_units() {
    within(async || {
        let mut config = exit_config(0, None, vec![flow_out("x=udp://127.0.0.1:9")]);
        config.metrics = Some("127.0.0.1:0".parse().expect("is an address"));
        let exit = Tunnel::start(config).await.expect("starts");
        let address = exit.metrics().expect("is served");
        let text = tokio::task::spawn_blocking(move || metrics(address)).await.expect("ends");
        let mut families = 0;
        for family in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let (name, kind) = family.split_once(' ').expect("has a kind");
            assert!(text.contains(&format!("# HELP {name} ")), "{name} has no description");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
            for unit in ["bits", "milliseconds", "kilobytes", "minutes"] {
                assert!(!name.contains(unit), "{name}");
            }
            families += 1;
        }
        assert!(families > 60, "{families} families");
        for sample in text.lines().filter(|line| !line.starts_with('#')) {
            let name = sample.split(['{', ' ']).next().expect("has a name");
            let parts = ["_bucket", "_sum", "_count"].map(|part| name.strip_suffix(part));
            let family = parts.into_iter().flatten().next().unwrap_or(name);
            assert!([family, name].iter().any(|name| text.contains(&format!("# TYPE {name} "))), "{sample}");
        }
        exit.stop().await;
    });
}

#[test]
fn mistakes_in_expressions_are_found() {
    let scrape = Scrape::of(&["# TYPE squall_tunnel_path_active gauge\n\
        squall_tunnel_path_active{slot=\"1\",path=\"wlan0\"} 1.0\n\
        # TYPE squall_tunnel_flow_late_blocks_total counter\n\
        squall_tunnel_flow_late_blocks_total{flow=\"x\"} 1\n"
        .to_owned()]);
    let mistakes = |text: &str| Expression::parse(text).mistakes(&scrape, text).len();
    for right in [
        r#"max by (job, path) (squall_tunnel_path_active{path!~"[0-9]+"}) == 0"#,
        "60 * sum by (flow) (rate(squall_tunnel_flow_late_blocks_total[5m])) > 1e4",
        r#"up{job="squall"} == 0 unless on (instance) squall_tunnel_path_active"#,
    ] {
        assert_eq!(mistakes(right), 0, "{right}");
    }
    for wrong in [
        "squall_tunnel_path_activ == 0",
        "squal_path == 0",
        r#"squall_tunnel_path_active{flow="x"} == 0"#,
        "sum by (flow) (squall_tunnel_path_active)",
        "squall_tunnel_flow_late_blocks",
        "up and on (path) squall_tunnel_flow_late_blocks_total",
    ] {
        assert_eq!(mistakes(wrong), 1, "{wrong}");
    }
}
