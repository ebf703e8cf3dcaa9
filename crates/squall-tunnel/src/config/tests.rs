use std::time::Duration;

use super::*;
use crate::media::Media;

const ENTRY: &str = r#"
token = "correct horse battery"
scheduler = "ras"
metrics = "127.0.0.1:9464"

[connect]
to = "media.example.org:4433"
interfaces = ["wlan0", "wwan0"]
metered = ["wwan0"]
signal = true

[log]
format = "json"

[[flow]]
name = "cam"
in = "udp://127.0.0.1:5000"
media = "h264"
latency = "150ms"

[[flow]]
name = "back"
out = "udp://127.0.0.1:6000"
playout = "steady"
"#;

fn parse(text: &str) -> Result<Config, String> {
    Config::parse("t.toml", text, Path::new("")).map_err(|error| error.to_string())
}

#[test]
fn a_file_is_read_with_defaults_filled_in() {
    let config = parse(ENTRY).expect("is right");
    let Side::Connect(connect) = &config.side else { panic!("it calls") };
    assert_eq!(connect.metered, ["wwan0"]);
    assert!(connect.signal);
    assert_eq!(connect.trust, TrustConfig::System);
    assert_eq!((config.log.format, config.log.level), (LogFormat::Json, LogLevel::Info));
    let [cam, back] = &config.flows[..] else { panic!("two flows") };
    assert_eq!((cam.media, cam.latency), (Media::H264, Some(Duration::from_millis(150))));
    assert!(cam.is_in() && !back.is_in());
    assert_eq!((cam.from, back.from), (None, None));
    assert_eq!(back.playout, Playout::Steady);
    assert_eq!(back.latency, None);
}

#[test]
fn mistakes_have_a_line_and_a_column() {
    let cases = [
        ("media = \"h264\"", "media = \"h246\"", "18:9: media: unknown word 'h246'; did you mean 'h264'?"),
        ("latency = \"150ms\"", "latencie = \"1s\"", "19:1: unknown key 'latencie'; did you mean 'latency'?"),
        ("latency = \"150ms\"", "latency = \"150\"", "19:11: latency: \"150\" is not a duration"),
        ("latency = \"150ms\"", "priority = 9", "19:12: priority: 9 is not between 0 and 7"),
        ("latency = \"150ms\"", "playout = \"soon\"", "19:11: playout: unknown key 'playout' at this end"),
        (
            "in = \"udp://127.0.0.1:5000\"",
            "in = \"tcp://127.0.0.1:5000\"",
            "17:6: in: 'tcp://127.0.0.1:5000' is not an address",
        ),
        ("in = \"udp://127.0.0.1:5000\"", "", "15:1: a flow needs in or out"),
        ("name = \"back\"", "name = \"cam\"", "22:8: name: there is a flow 'cam' already"),
        ("name = \"cam\"", "name = \"c a\"", "16:8: name: 'c a' is not a flow name"),
        ("scheduler = \"ras\"", "scheduler = \"rass\"", "3:13: scheduler: unknown scheduler 'rass'"),
        ("to = \"media.example.org:4433\"", "to = \"media\"", "7:6: to: expected HOST:PORT"),
        (
            "token = \"correct horse battery\"",
            "token = \"short\"",
            "2:9: token: a token has 12 to 256 bytes, not 5",
        ),
        ("token = \"correct horse battery\"", "", "1:1: token or token_file is missing"),
        ("[connect]", "[listen]", "8:1: unknown key 'interfaces'"),
        ("[log]", "[log", "12:"),
        (
            "metered = [\"wwan0\"]",
            "metered = [\"wwan1\"]",
            "9:11: metered: 'wwan1' is not among the interfaces",
        ),
        ("latency = \"150ms\"", "gap = \"2s\"", "19:7: gap: 2s is not between 0ns and 1s"),
        ("to = \"media.example.org:4433\"", "", "6:1: missing field `to`"),
        (
            "interfaces = [\"wlan0\", \"wwan0\"]",
            "interfaces = [\"wlan0\", \"127.0.0.1\"]",
            "8:14: interfaces: give names or addresses, not both",
        ),
        ("latency = \"150ms\"", "gap = \"2x\"", "19:7: gap: \"2x\" is not a duration"),
        ("signal = true", "pin = \"zz\"", "10:7: pin: "),
        (
            "metrics = \"127.0.0.1:9464\"",
            "congestion = \"tcp\"",
            "4:14: congestion: unknown congestion control",
        ),
        (
            "format = \"json\"",
            "format = \"jsno\"",
            "13:10: format: unknown word 'jsno'; did you mean 'json'?",
        ),
        ("format = \"json\"", "form = \"json\"", "13:1: unknown key 'form'; did you mean 'format'?"),
        ("out = \"udp://127.0.0.1:6000\"", "in = \"udp://127.0.0.1:5000\"", "24:11: playout: unknown key"),
        ("metrics = \"127.0.0.1:9464\"", "metrics = 1", "4:11: metrics: invalid type: integer `1`"),
    ];
    for (right, wrong, expected) in cases {
        assert!(ENTRY.contains(right), "{right}");
        let error = parse(&ENTRY.replacen(right, wrong, 1)).expect_err(wrong);
        assert!(error.starts_with(&format!("t.toml:{expected}")), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn what_interfaces_may_carry_is_read_and_mistakes_are_named() {
    let text = |tables: &str| {
        format!("token = \"correct horse battery\"\n[connect]\nto = \"host:1\"\ninsecure = true\n{tables}")
    };
    let config = parse(&text(
        "quotas = \"q\"\n[connect.paths.wwan0]\nrole = \"backup\"\nquota = \"1GB\"\nquota_period = \"month\"\n\
         [connect.paths.wlan0]\nrate_limit = \"2mbps\"\n",
    ));
    let Side::Connect(connect) = config.expect("is right").side else { panic!("an entry") };
    let (wwan, wlan) = (connect.paths["wwan0"], connect.paths["wlan0"]);
    assert_eq!((wwan.role, wlan.role), (squall::Role::Backup, squall::Role::Primary));
    assert_eq!(wwan.quota.map(|quota| quota.bytes), Some(1_000_000_000));
    assert_eq!(wlan.rate_limit, Some(squall::RateLimit::new(2_000_000)));
    for (tables, problem) in [
        ("[connect.paths.a]\nrole = \"spare\"\n", "spare"),
        ("[connect.paths.a]\nquota = \"1GB\"\n", "quota needs quota_period"),
        ("[connect.paths.a]\nquota = \"1GB\"\nquota_period = \"year\"\n", "'year' is no period"),
        ("[connect.paths.a]\nquota = \"1GB\"\nquota_period = \"day\"\n", "needs the key quotas"),
        ("[connect.paths.a]\nquota_period = \"day\"\n", "no effect without quota"),
        ("[connect.paths.a]\nrate_limit = \"1kbps\"\n", "below 8 kbps"),
        ("interfaces = [\"b\"]\n[connect.paths.a]\nrole = \"backup\"\n", "'a' is not among the interfaces"),
    ] {
        let error = parse(&text(tables)).expect_err(tables);
        assert!(error.contains(problem) && !error.contains('\n'), "{tables}: {error}");
    }
}

#[test]
fn a_flow_has_one_hint_at_most() {
    let flow = |rest: &str| FlowConfig::parse(&format!("cam=udp://127.0.0.1:5000{rest}"), true);
    assert_eq!(flow(",only=wwan0").map(|flow| flow.hint), Ok(Some(squall::PathHint::only("wwan0"))));
    assert_eq!(flow(",avoid=wwan0").map(|flow| flow.hint), Ok(Some(squall::PathHint::avoid("wwan0"))));
    assert!(flow(",avoid=a,prefer=b").is_err_and(|error| error.contains("one of prefer, avoid and only")));
}

#[test]
fn interfaces_are_names_or_addresses() {
    let request = |interfaces: &[&str]| {
        let to = vec!["host:1".parse().expect("is right")];
        let connect = ConnectConfig {
            interfaces: interfaces.iter().map(|one| (*one).to_owned()).collect(),
            ..ConnectConfig::new(to, TrustConfig::Insecure)
        };
        format!("{:?}", connect.request("host:1", None).expect("needs no file"))
    };
    assert!(request(&[]).contains("Auto"));
    assert!(request(&["wlan0"]).contains("Named([\"wlan0\"])"));
    assert!(request(&["127.0.0.2", "::1"]).contains("Local([127.0.0.2, ::1])"));
}

#[test]
fn flags_give_flows_like_files() {
    let flow = FlowConfig::parse("cam=udp://127.0.0.1:5000,media=ts,latency=200ms,priority=1", true);
    let flow = flow.expect("is right");
    assert_eq!((flow.media, flow.latency, flow.priority), (Media::Ts, Some(Duration::from_millis(200)), 1));
    let cases = [
        ("cam", true, "expected NAME=udp://"),
        ("cam=127.0.0.1:1", true, "'127.0.0.1:1' is not an address"),
        ("cam=udp://127.0.0.1:0", true, "has no port"),
        ("cam=udp://127.0.0.1:1,media", true, "'media': expected key=value"),
        ("cam=udp://127.0.0.1:1,media=ts", false, "unknown key 'media'"),
    ];
    for (text, is_in, expected) in cases {
        let error = FlowConfig::parse(text, is_in).expect_err(text);
        assert!(error.contains(expected), "{error}");
    }
}

mod never {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn panics(at in 0..ENTRY.len(), junk in "\\PC{0,8}") {
            let mut text = ENTRY.to_owned();
            text.insert_str(at, &junk);
            let _ = parse(&text);
            let _ = FlowConfig::parse(&junk, true);
        }
    }
}

#[test]
fn the_files_that_ship_can_be_used() {
    for file in ["entry.toml", "exit.toml"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist");
        let text = std::fs::read_to_string(folder.join(file)).expect("is there");
        let line = text.lines().find(|line| line.starts_with("token_file")).expect("has a token");
        let text = text.replace(line, "token = \"correct horse battery\"");
        let config = Config::parse(file, &text, &folder).expect(file);
        assert_eq!(config.flows.len(), 3, "{file}");
        assert_eq!(config.warning(), None, "{file}");
    }
}

#[test]
fn metered_interfaces_need_a_scheduler_that_spares_them() {
    let warning = |scheduler: &str, metered: &[&str]| {
        let to = vec!["host:1".parse().expect("is right")];
        let connect = ConnectConfig {
            metered: metered.iter().map(|name| (*name).to_owned()).collect(),
            ..ConnectConfig::new(to, TrustConfig::System)
        };
        let token = Token::new("correct horse battery").expect("is long enough");
        Config { scheduler: scheduler.to_owned(), ..Config::new(Side::Connect(connect), token) }.warning()
    };
    assert_eq!(warning("squall", &["usb0"]), None, "spares it");
    assert!(warning("minrtt", &["usb0"]).expect("is due").contains("no effect with minrtt ("));
    assert!(warning("ras(alpha=2)", &["usb0"]).is_some_and(|words| words.contains("use ras(cap=")));
    for (scheduler, metered) in [
        ("minrtt", &[][..]),
        ("minrtt(cap=250MB)", &["usb0"]),
        ("augur", &["usb0"]),
        ("augur(cap=1MB)", &["usb0"]),
    ] {
        assert_eq!(warning(scheduler, metered), None, "{scheduler}");
    }
}

const EXIT: &str = r#"
token = "correct horse battery"

[listen]
address = "0.0.0.0:4433"

[tun]
address = ["10.98.0.1/24", "fd98::1/64"]

[tun.class.video]
latency = "200ms"

[[tun.rule]]
port = "5000-5009"
protocol = "udp"
class = "video"

[[tun.peer]]
name = "car"
address = ["10.98.0.2", "192.168.7.0/24"]
token = "the token of the car"

[[tun.peer]]
name = "home"
address = ["10.98.0.3"]
"#;

#[test]
fn a_device_has_a_flow_for_each_class_of_each_entry() {
    let config = parse(EXIT).expect("is right");
    let tun = config.tun.as_ref().expect("is there");
    assert_eq!((tun.device.as_str(), tun.mtu), ("squall0", TunConfig::DEFAULT_MTU));
    assert_eq!(tun.class(TrafficClass::Video).latency, Duration::from_millis(200));
    assert_eq!(tun.rules, [TunRule { ports: 5000..=5009, protocol: Some(17), class: TrafficClass::Video }]);
    let flows = config.all_flows();
    assert_eq!(flows.len(), 8);
    assert!(flows.iter().all(|flow| flow.end == End::TunOut));
    assert_eq!((flows[1].name.as_str(), flows[1].latency), ("car.video", Some(Duration::from_millis(200))));
}

#[test]
fn a_token_of_its_own_carries_one_entry_and_nothing_else() {
    let text = format!("{EXIT}\n[[flow]]\nname = \"cam\"\nout = \"udp://127.0.0.1:6000\"\n");
    let config = parse(&text).expect("is right");
    assert_eq!(config.identify(b"correct horse battery"), Some(None));
    assert_eq!(config.identify(b"the token of the car"), Some(Some("car".to_owned())));
    assert_eq!(config.identify(b"the token of the bus"), None);
    let carried = |entry: Option<&str>| {
        let flows = config.all_flows();
        let names = flows.iter().filter(|flow| config.may_carry(entry, flow)).map(|flow| flow.name.clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(carried(Some("car")), ["car.voice", "car.video", "car.default", "car.background"]);
    assert_eq!(carried(None), ["cam", "home.voice", "home.video", "home.default", "home.background"]);
}

#[test]
fn mistakes_of_a_device_have_a_line_and_a_column() {
    let cases = [
        (
            "address = [\"10.98.0.1/24\", \"fd98::1/64\"]",
            "address = []",
            "8:11: address: a device has one address",
        ),
        ("\"fd98::1/64\"]", "\"fd98::1\"]", "8:11: address: 'fd98::1' is not ADDR/PREFIX"),
        (
            "\"fd98::1/64\"]",
            "\"fd98::1/64\"]\nbehind = [\"10.0.0.0/8\"]",
            "9:10: behind: it belongs to an entry",
        ),
        ("[tun.class.video]", "[tun.class.vidoe]", "10:12: unknown key 'vidoe'; did you mean 'video'?"),
        ("latency = \"200ms\"", "priority = 9", "11:12: priority: 9 is not between 0 and 7"),
        ("port = \"5000-5009\"", "port = \"5009-5000\"", "14:8: port: '5009-5000' is not PORT"),
        ("class = \"video\"", "class = \"vido\"", "16:9: class: unknown word 'vido'; did you mean 'video'?"),
        ("name = \"home\"", "name = \"car\"", "24:8: name: there is a peer 'car' already"),
        ("address = [\"10.98.0.3\"]", "address = [\"10.98.0.2\"]", "25:11: address: 'car' has one of these"),
        ("token = \"the token of the car\"", "token = \"short\"", "21:9: token: a token has 12"),
        ("[listen]\naddress = \"0.0.0.0:4433\"", "[connect]\nto = \"host:1\"", "18:1: unknown key 'peer'"),
    ];
    for (right, wrong, expected) in cases {
        assert!(EXIT.contains(right), "{right}");
        let error = parse(&EXIT.replacen(right, wrong, 1)).expect_err(wrong);
        assert!(error.starts_with(&format!("t.toml:{expected}")), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn an_exit_has_workers_and_a_place_behind_a_load_balancer() {
    let config = parse(EXIT).expect("is right");
    assert_eq!((config.workers, config.quic_lb), (1, None));
    let scaled = |rest: &str| EXIT.replace("[tun]", &format!("{rest}\n\n[tun]"));
    let key = "key = \"8f95f09245765f80256934e50c66207f\"";
    let rest = format!("workers = 4\n[listen.load_balancer]\nconfig = 2\nserver_id = \"0a01\"\n{key}");
    let config = parse(&scaled(&rest)).expect("is right");
    let quic_lb = config.quic_lb.clone().expect("is given");
    assert_eq!((config.workers, quic_lb.id().to_string().as_str()), (4, "0a01"));
    assert_eq!((quic_lb.format().id_len(), quic_lb.format().is_encrypted()), (11, true));
    assert!(!format!("{config:?}").contains("8f95"), "{config:?}");

    let table = "[listen.load_balancer]\nserver_id = \"0a01\"\n";
    for (rest, expected) in [
        ("workers = 0".to_owned(), "workers: 0 is not between 1 and 32".to_owned()),
        ("workers = 33".to_owned(), "33 is not between 1 and 32".to_owned()),
        ("[listen.load_balancer]".to_owned(), "server_id".to_owned()),
        (
            "[listen.load_balancer]\nserver_id = \"xy\"".to_owned(),
            "'xy' is not 1 to 15 pairs of hexadecimal digits".to_owned(),
        ),
        (format!("{table}config = 7"), "configuration id 7 is not from 0 to 6".to_owned()),
        (
            format!("{table}nonce = 3"),
            "a nonce beside a server id of 2 bytes has 4 to 17 bytes, not 3".to_owned(),
        ),
        (format!("{table}key = \"8f95\""), "a key has 32 hexadecimal digits".to_owned()),
        (format!("{table}{key}\nkey_file = \"lb.key\""), "key is given too".to_owned()),
    ] {
        let error = parse(&scaled(&rest)).expect_err("is wrong").to_string();
        assert!(error.contains(&expected) && !error.contains("8f95"), "{rest}: {error}");
    }
}

#[test]
fn an_entry_has_one_or_several_exits() {
    let with = |to: &str| parse(&ENTRY.replacen("to = \"media.example.org:4433\"", to, 1));
    let connect = |to: &str| match with(to).expect(to).side {
        Side::Connect(connect) => connect,
        Side::Listen(_) => panic!("it connects"),
    };
    let several = "to = [\"a:1\", \"[::1]:2\", \"srv:_squall._udp.example.org\"]\nidentity = \"van-7\"";
    assert_eq!(connect(several).words(), "a:1, [::1]:2, srv:_squall._udp.example.org");
    assert_eq!(connect(several).identity.as_deref(), Some("van-7"));
    let (one, other) = ("1".repeat(64), "2".repeat(64));
    let pins = |pins: &str| connect(&format!("to = [\"a:1\", \"b:1\"]\npin = {pins}")).trust;
    let pin = |text: &String| text.parse().expect("is right");
    assert_eq!(pins(&format!("\"{one}\"")), TrustConfig::Pin(pin(&one)));
    assert_eq!(pins(&format!("[\"{one}\", \"{other}\"]")), TrustConfig::Pins(vec![pin(&one), pin(&other)]));
    let many = format!("to = {:?}", (0..17).map(|n| format!("a:{}", n + 1)).collect::<Vec<_>>());
    let cases = [
        ("to = []".to_owned(), "7:6: to: expected 1 to 16 exits"),
        (many, "7:6: to: expected 1 to 16 exits"),
        ("to = 5".to_owned(), "7:6: to: expected a text or a list of texts"),
        ("to = [\"a:1\", \"b\"]".to_owned(), "7:14: to: expected HOST:PORT, such as"),
        ("to = [\"a:1\", \"a:1\"]".to_owned(), "7:6: to: 'a:1' is there twice"),
        ("to = \"srv:example.org\"".to_owned(), "7:6: to: expected the name of SRV records, such as"),
        (
            format!("to = [\"a:1\", \"b:1\", \"c:1\"]\npin = [\"{one}\", \"{other}\"]"),
            "8:7: pin: there are 2 fingerprints; expected 1, or 3: one for each exit",
        ),
        (
            format!("to = [\"a:1\", \"srv:_a._udp.b\"]\npin = [\"{one}\", \"{other}\"]"),
            "8:7: pin: SRV records take one fingerprint for all exits",
        ),
    ];
    for (wrong, expected) in cases {
        let error = with(&wrong).expect_err(&wrong);
        assert!(error.starts_with(&format!("t.toml:{expected}")) && !error.contains('\n'), "{error}");
    }
}

const TENANTS: &str = r#"
tenants_state = "state"
tenants_url = "https://example.org/list"
control = "c.sock"

[listen]
address = "0.0.0.0:4433"

[[tenant]]
name = "acme"
token_sha256 = "9028ea0d15decaa35b2da21c0290af3b1a5ba0a30a591906f89b5074e209ea72"
limits = { max_sessions = 2, rate_in = "20Mbps", bytes = "500GB", period = "day" }

[[tenant.flow]]
name = "cam"
out = "udp://127.0.0.1:6000"

[[tenant]]
name = "other"
token_sha256 = "0000000000000000000000000000000000000000000000000000000000000000"

[[tenant.flow]]
name = "cam"
in = "udp://127.0.0.1:5000"
"#;

#[test]
fn tenants_have_flows_and_limits_of_their_own() {
    let config = parse(TENANTS).expect("is right");
    assert_eq!(config.token, None);
    let [acme, other] = &config.tenants.list[..] else { panic!("two tenants") };
    assert_eq!(acme.token, TokenHash::of(b"correct horse battery"));
    assert_eq!(acme.limits.rate_in.map(squall_units::Rate::bps), Some(20_000_000));
    assert_eq!(
        (acme.limits.bytes.map(squall_units::Size::bytes), acme.limits.period),
        (Some(500_000_000_000), Period::Day)
    );
    assert_eq!((other.limits, other.flows.len()), (TenantLimits::default(), 1));
    let flow = &acme.flows[0];
    assert_eq!((flow.name.as_str(), flow.tenant(), flow.name_of_peer()), ("acme/cam", Some("acme"), "cam"));
    assert!(config.flows.is_empty() && other.flows[0].is_in());
    let control = config.control.expect("is given");
    assert_eq!((control.path, control.mode), (PathBuf::from("c.sock"), SocketMode::Owner));
    let url = config.tenants.url.expect("is given");
    assert_eq!((url.url.as_str(), url.interval.as_secs()), ("https://example.org/list", 30));
}

#[test]
fn mistakes_of_tenants_have_a_line_and_a_column() {
    let hash = "\"9028ea0d15decaa35b2da21c0290af3b1a5ba0a30a591906f89b5074e209ea72\"";
    let cases = [
        ("name = \"acme\"", "name = \"a/b\"", "10:8: name: 'a/b' is not a tenant's name"),
        (hash, "\"correct horse battery\"", "11:16: token_sha256: expected the SHA-256 of a token"),
        ("max_sessions = 2", "max_sessions = 0", "12:27: limits.max_sessions: 0 is not between 1 and 1024"),
        (
            "rate_in = \"20Mbps\"",
            "rate = \"20Mbps\"",
            "12:30: limits: unknown key 'rate'; did you mean 'rate_in'?",
        ),
        ("\"20Mbps\"", "\"20\"", "12:40: limits.rate_in: 20bps is not between 10kbps and 100gbps"),
        ("\"500GB\"", "\"0\"", "12:58: limits.bytes: 0B is not between 1kB and 1000000GB"),
        ("\"500GB\"", "\"5GiBi\"", "12:58: limits.bytes: \"5GiBi\" is not a size: "),
        ("\"day\"", "\"week\"", "12:76: limits.period: unknown word 'week'; there are day, month"),
        ("name = \"cam\"", "name = \"a b\"", "15:8: name: 'a b' is not a flow name"),
        ("name = \"other\"", "name = \"acme\"", "19:8: name: there are two tenants 'acme'"),
        (&"0".repeat(64), hash.trim_matches('"'), "20:16: token_sha256: the tenants 'acme' and"),
        (
            "tenants_state = \"state\"",
            "token = \"short token\"",
            "3:15: tenants_url: tenants_state is missing",
        ),
        ("https://example.org", "ftp://example.org", "3:15: tenants_url: expected http://HOST/PATH"),
        (
            "https://example.org",
            "https://me:secret@example.org",
            "3:15: tenants_url: a user name or password",
        ),
        (
            "control =",
            "tenants_token_file = \"none\"\ncontrol =",
            "4:22: tenants_token_file: none: No such file",
        ),
        (
            "https://example.org/list\"",
            "http://example.org/list\"\ntenants_token_file = \"/proc/sys/kernel/ostype\"",
            "4:22: tenants_token_file: needs a tenants_url with https",
        ),
        (
            "tenants_url = \"https://example.org/list\"",
            "tenants_token_file = \"/proc/sys/kernel/ostype\"",
            "3:22: tenants_token_file: tenants_url is missing",
        ),
        ("control = \"c.sock\"", "control_mode = \"0660\"", "4:16: control_mode: control is missing"),
        ("control = \"c.sock\"", "tenants = \"nowhere.d\"", "4:11: tenants: nowhere.d: No such file"),
        (
            "[listen]\naddress = \"0.0.0.0:4433\"",
            "[connect]\nto = \"host:1\"",
            "9:1: tenants belong to an exit",
        ),
        (
            "control =",
            "token = \"correct horse battery\"\ncontrol =",
            "12:16: token_sha256: the token of tenant 'acme' is also",
        ),
    ];
    for (right, wrong, expected) in cases {
        assert!(TENANTS.contains(right), "{right}");
        let error = parse(&TENANTS.replacen(right, wrong, 1)).expect_err(wrong);
        assert!(error.starts_with(&format!("t.toml:{expected}")), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn mistakes_between_files_of_a_folder_name_the_files() {
    let folder = tempfile::tempdir().expect("is made");
    let write = |file: &str, name: &str, token: u32, more: &str| {
        let text = format!("name = \"{name}\"\ntoken_sha256 = \"{token:064}\"\n{more}\n");
        std::fs::write(folder.path().join(file), text).expect("is written");
    };
    let problem = |own: &str| {
        let text = format!("tenants = \".\"\n[listen]\naddress = \"0.0.0.0:4433\"\n{own}");
        let error = Config::parse("t.toml", &text, folder.path()).expect_err("has a mistake").to_string();
        let (before, problem) = error.split_once(": tenants: ").expect("names the key of the folder");
        assert_eq!(before, "t.toml:1:11");
        problem.replace(&format!("{}/./", folder.path().display()), "")
    };
    write("a.toml", "acme", 1, "");
    write("b.toml", "acme", 2, "");
    assert_eq!(problem(""), "b.toml:1:8: name: there are two tenants 'acme', see a.toml");
    write("b.toml", "other", 1, "");
    let same = "b.toml:2:16: token_sha256: the tenants 'acme' and 'other' have the same token, see a.toml";
    assert_eq!(problem(""), same);
    let own = format!("[[tenant]]\nname = \"own\"\ntoken_sha256 = \"{:064}\"\n", 1);
    let beside = problem(&own);
    assert_eq!(beside, "a.toml:2:16: token_sha256: the tenants 'own' and 'acme' have the same token");
    write("b.toml", "other", 2, "limits = { bytes = \"1GB\" }");
    let counted = "b.toml:3:20: limits.bytes: tenant 'other': limits.bytes needs tenants_state";
    assert!(problem("").starts_with(counted), "{}", problem(""));
    let flow = "flow = [{ name = \"cam\", in = \"udp://127.0.0.1:5000\" }]";
    write("a.toml", "acme", 1, flow);
    write("b.toml", "other", 2, flow);
    let enters = "b.toml:3:8: flow: flow 'other/cam' enters at the address of 'acme/cam'";
    assert_eq!(problem(""), enters);
}

#[test]
fn an_exit_names_others_to_move_to() {
    let text = |more: &str| {
        parse(&format!("token = \"correct horse battery\"\n[listen]\naddress = \"0.0.0.0:4433\"\n{more}"))
    };
    let listen = |more: &str| match text(more).expect(more).side {
        Side::Listen(listen) => (listen.redirect, listen.drain_timeout.as_secs()),
        Side::Connect(_) => panic!("it listens"),
    };
    assert_eq!(listen(""), (Vec::new(), 30));
    let two = vec!["b:1".to_owned(), "c:1".to_owned()];
    assert_eq!(listen("redirect = [\"b:1\", \"c:1\"]\ndrain_timeout = \"2min\""), (two, 120));
    for (wrong, expected) in [
        ("redirect = \"b\"", "4:12: redirect: expected HOST:PORT"),
        ("redirect = \"srv:_a._udp.b\"", "4:12: redirect: expected HOST:PORT"),
        ("drain_timeout = \"2h\"", "4:17: drain_timeout: "),
    ] {
        let error = text(wrong).expect_err(wrong);
        assert!(error.starts_with(&format!("t.toml:{expected}")), "{error}");
    }
    let many = format!("redirect = {:?}", vec!["a:1"; 9]);
    assert!(text(&many).expect_err("too many").contains("more than 8 exits"));
}

#[test]
fn flows_that_the_system_would_refuse_side_by_side_are_a_mistake() {
    let flows = |one: &str, other: &str| {
        format!(
            "token = \"correct horse battery\"\n[listen]\naddress = \"0.0.0.0:4433\"\n\
             [[flow]]\nname = \"cam\"\nin = \"udp://{one}\"\n[[flow]]\nname = \"cam2\"\nin = \"udp://{other}\"\n"
        )
    };
    for (one, other) in [
        ("127.0.0.1:5000", "0.0.0.0:5000"),
        ("0.0.0.0:5000", "127.0.0.1:5000"),
        ("[::]:5000", "127.0.0.1:5000"),
        ("[::]:5000", "0.0.0.0:5000"),
        ("[::1]:5000", "[::]:5000"),
        ("[::ffff:127.0.0.1]:5000", "127.0.0.1:5000"),
        ("239.1.1.1:5000", "0.0.0.0:5000"),
    ] {
        let error = parse(&flows(one, other)).expect_err("one port");
        let words = format!(
            "flow 'cam2' enters at the address of 'cam': {other} and {one} are one port of this machine"
        );
        assert!(error.starts_with("t.toml:8:8: ") && error.ends_with(&words), "{error}");
    }
    for (one, other) in [
        ("127.0.0.1:5000", "127.0.0.2:5000"),
        ("0.0.0.0:5000", "[::1]:5000"),
        ("0.0.0.0:5000", "127.0.0.1:5002"),
        ("239.1.1.1:5000", "239.1.1.2:5000"),
        ("[fe80::1%2]:5000", "[fe80::1%3]:5000"),
    ] {
        parse(&flows(one, other)).expect("two ports");
    }
    for address in ["127.0.0.1:4433", "0.0.0.0:4433", "[::]:4433"] {
        let error = parse(&flows("127.0.0.1:5000", address)).expect_err("the port of the exit");
        let words = "flow 'cam2' enters at the address where the exit listens, 0.0.0.0:4433";
        assert!(error.starts_with("t.toml:8:8: ") && error.ends_with(words), "{error}");
    }
    // Metrics are TCP.
    let beside = flows("127.0.0.1:5000", "127.0.0.1:5001")
        .replace("[listen]", "metrics = \"127.0.0.1:5000\"\n[listen]");
    parse(&beside).expect("another protocol");
    let tenant = TENANTS.replace("out = \"udp://127.0.0.1:6000\"", "in = \"udp://127.0.0.1:4433\"");
    let error = parse(&tenant).expect_err("the port of the exit");
    assert!(error.ends_with("' enters at the address where the exit listens, 0.0.0.0:4433"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_not_on_this_machine_is_named() {
    let missing =
        |text: &str| parse(&format!("token = \"correct horse battery\"\n{text}")).expect(text).missing();
    let entry = "[connect]\nto = \"host:1\"\ninterfaces = [\"lo\", \"no-wlan7\"]\nmetered = [\"no-wlan7\"]\n";
    let flow = |address: &str| format!("{entry}[[flow]]\nname = \"cam\"\nin = \"udp://{address}\"\n");
    let interface = "interface no-wlan7 is not there now; the tunnel uses it once it is there";
    assert_eq!(missing(&flow("127.0.0.1:5000")), [interface]);
    assert_eq!(missing(&flow("239.1.1.1:5000")), [interface]);
    let address = "flow cam: 192.0.2.99:5000: no interface has this address now; the tunnel waits for it";
    assert_eq!(missing(&flow("192.0.2.99:5000")), [interface, address]);
    let exit = |address: &str, state: &str| {
        format!("metrics = \"{address}\"\n[listen]\naddress = \"127.0.0.1:4433\"\nstate = \"{state}\"\n")
    };
    assert_eq!(missing(&exit("127.0.0.1:9464", "exit.pem")), [""; 0]);
    let both = missing(&exit("192.0.2.99:9464", "/no-folder/exit.pem"));
    assert!(both[0].starts_with("metrics: 192.0.2.99:9464: no interface has this address now; "), "{both:?}");
    assert_eq!(
        both[1],
        "listen.state: the tunnel cannot start without the folder /no-folder, which is not there now"
    );
}

#[test]
fn a_token_is_the_same_with_a_byte_order_mark() {
    let folder = tempfile::tempdir().expect("is made");
    let file = folder.path().join("token");
    let units =
        "\u{feff}correct horse battery\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    for bytes in [b"\xef\xbb\xbfcorrect horse battery\n".to_vec(), units] {
        std::fs::write(&file, bytes).expect("is written");
        let token = Token::load(&file).expect("is a token");
        assert_eq!(token.reveal(), "correct horse battery");
    }
    let config = folder.path().join("c.toml");
    let text = "\u{feff}token_file = \"token\"\n[listen]\naddress = \"127.0.0.1:4433\"\ncolour = 1\n";
    std::fs::write(&config, text).expect("is written");
    let error = Config::load(&config).expect_err("has a mistake").to_string();
    assert!(error.starts_with(&format!("{}:4:1: unknown key 'colour'", config.display())), "{error}");
}

#[test]
fn tenants_do_not_enter_at_one_address_and_are_not_too_many() {
    let twice = TENANTS.replace("out = \"udp://127.0.0.1:6000\"", "in = \"udp://127.0.0.1:5000\"");
    let error = parse(&twice).expect_err("has a conflict");
    assert!(error.ends_with("flow 'other/cam' enters at the address of 'acme/cam'"), "{error}");
    let tenant = |n: usize| format!("[[tenant]]\nname = \"t{n}\"\ntoken_sha256 = \"{n:064}\"\n");
    let many = |count| (0..count).map(tenant).collect::<String>();
    assert_eq!(read_list("list", &many(MAX_TENANTS)).map(|all| all.len()), Ok(MAX_TENANTS));
    let text = format!("[listen]\naddress = \"0.0.0.0:4433\"\n{}", many(MAX_TENANTS + 1));
    assert!(parse(&text).expect_err("are too many").ends_with("257 tenants; at most 256 are possible"));
}

#[test]
fn the_interface_of_a_group_is_named() {
    let flow = FlowConfig::parse("x=udp://239.1.1.1:5000,interface=eth1,ttl=8", false).expect("is right");
    assert_eq!((flow.interface.as_deref(), flow.ttl), (Some("eth1"), 8));
    let flow = FlowConfig::parse("x=udp://[ff15::1]:5000,interface=eth1", true).expect("is right");
    assert_eq!((flow.interface.as_deref(), flow.ttl), (Some("eth1"), 1));
    let refused = |text: &str, is_in| FlowConfig::parse(text, is_in).expect_err("is refused");
    let unicast = "interface: only a flow with a multicast address has one";
    assert_eq!(refused("x=udp://192.0.2.1:5000,interface=eth1", false), unicast);
    let ttl = "ttl: only a flow that leaves for a multicast address has one";
    assert_eq!(refused("x=udp://239.1.1.1:5000,ttl=3", true), ttl);
    assert_eq!(refused("x=udp://192.0.2.1:5000,ttl=3", false), ttl);
    assert_eq!(refused("x=udp://239.1.1.1:5000,ttl=0", false), "ttl: 0 is not between 1 and 255");
    assert_eq!(refused("x=udp://239.1.1.1:5000,interface=", true), "interface: the name is empty");
}

#[test]
fn flows_enter_at_different_sockets() {
    for (one, other, clash) in [
        ("127.0.0.1:5000", "127.0.0.1:5000", true),
        ("127.0.0.1:5000", "127.0.0.1:5001", false),
        ("127.0.0.1:5000", "127.0.0.2:5000", false),
        ("127.0.0.1:5000", "0.0.0.0:5000", true),
        ("[::]:5000", "127.0.0.1:5000", true),
        ("[::1]:5000", "0.0.0.0:5000", false),
        ("239.1.1.1:5000", "0.0.0.0:5000", true),
        ("239.1.1.1:5000", "239.1.1.2:5000", false),
        ("239.1.1.1:5000", "239.1.1.1:5000", true),
        ("239.1.1.1:5000,interface=a", "239.1.1.1:5000", true),
        ("239.1.1.1:5000,interface=a", "239.1.1.1:5000,interface=a", true),
        ("239.1.1.1:5000,interface=a", "239.1.1.1:5000,interface=b", false),
    ] {
        let flow = |name: &str, end: &str| {
            FlowConfig::parse(&format!("{name}=udp://{end}"), true).expect("is right")
        };
        let checked = check_flows(&[flow("a", one), flow("b", other)], MAX_FLOWS);
        assert_eq!(checked.is_err(), clash, "{one} and {other}");
    }
}
