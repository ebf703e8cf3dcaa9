use std::path::PathBuf;

use squall_units::{Size, Span};

use crate::flow::Production;
use crate::scenario::Scenario;
use crate::traffic::{Distribution, Follow, FrameType, Pareto, ReliableFrames, Traffic};

/// A scenario whose only flow has this kind, on line 9, and these fields, from line 10 on.
fn text(kind: &str, fields: &str) -> String {
    format!(
        "name = \"t\"\nduration = \"10s\"\nschedulers = [\"minrtt\"]\n[[path]]\nname = \"p\"\nrate = \"9mbps\"\n\
         [[flow]]\nname = \"f\"\nkind = \"{kind}\"\n{fields}\n"
    )
}

fn traffic(kind: &str, fields: &str) -> Traffic {
    let scenario = Scenario::parse(&text(kind, fields), "t.toml").unwrap_or_else(|error| panic!("{error}"));
    scenario.flows[0].traffic.clone()
}

/// Priorities of the classes, in order.
fn priorities(traffic: &Traffic) -> Vec<u8> {
    traffic.classes().into_iter().map(|class| class.priority).collect()
}

fn error(kind: &str, fields: &str) -> String {
    Scenario::parse(&text(kind, fields), "t.toml").expect_err("should be refused").to_string()
}

#[test]
fn messages_have_distributions() {
    let words = "size = { pareto = { mean = \"20kB\", shape = 1.5 } }\ninterval = { exponential = \"25ms\" }";
    let Traffic::Messages(messages) = traffic("messages", words) else { panic!("no messages") };
    let mean = Size::from_bytes(20_000);
    assert_eq!(messages.size, Distribution::Pareto(Pareto { mean, shape: 1.5 }));
    assert_eq!(messages.interval, Distribution::Exponential(Span::from_millis(25)));
    let rest = (messages.deadline, messages.priority, messages.reliable);
    assert_eq!(rest, (None, 0, ReliableFrames::All));
    let words = "size = { uniform = [100, \"2kB\"] }\ninterval = { poisson = \"25ms\" }\nreliable = false";
    let Traffic::Messages(messages) = traffic("messages", words) else { panic!("no messages") };
    let bounds = (Size::from_bytes(100), Size::from_bytes(2_000));
    assert_eq!(messages.size, Distribution::Uniform(bounds));
    assert_eq!(messages.interval, Distribution::Poisson(Span::from_millis(25)));
    let Traffic::Messages(messages) = traffic("messages", "size = 900\ninterval = \"1ms\"") else {
        panic!("no messages")
    };
    assert_eq!(messages.size, Distribution::Constant(Size::from_bytes(900)));
}

#[test]
fn blocks_come_into_being_over_a_time() {
    let blocks = "size = 900\ninterval = \"1ms\"\ndeadline = \"50ms\"";
    let production = |words: &str| {
        let text = text("blocks", &format!("{words}\n{blocks}"));
        Scenario::parse(&text, "t.toml").map(|scenario| scenario.flows[0].production)
    };
    let grown = Production { time_us: 20_000, growing: true };
    assert_eq!(production("production = \"20ms\"\ngrowing = true").ok(), Some(grown));
    let stored = Production { growing: false, ..grown };
    assert_eq!(production("production = \"20ms\"").ok(), Some(stored));
    assert_eq!(production("").ok(), Some(Production::default()));
    let cases = [
        ("growing = true", "t.toml:10:1: growing: only blocks with a `production` can grow"),
        ("production = \"0ms\"", "t.toml:10:1: production: it is not within 1ms and 1min"),
        ("production = \"50ms\"", "t.toml:10:1: production: it must be shorter than the deadline"),
    ];
    for (words, expected) in cases {
        let message = production(words).expect_err("should be refused").to_string();
        assert!(message.starts_with(expected), "{words}: {message}");
    }
    let words = error("bulk", "production = \"5ms\"");
    assert!(words.contains("production: the blocks of a bulk flow are there at once"), "{words}");
}

#[test]
fn wrong_messages_are_located() {
    let size = |words: &str| error("messages", &format!("interval = \"1ms\"\nsize = {words}"));
    let cases = [
        ("\"17MiB\"", "11:1: size: 17825792 bytes is not within 1 and 16777216 bytes"),
        (
            "{ exponential = \"9MiB\" }",
            "11:1: size: a mean of 9437184 bytes is not within 1 and 8388608 bytes",
        ),
        ("{ uniform = [9, 8] }", "11:1: size: the upper end of 8 bytes is not within 9 and 16777216 bytes"),
        ("{ pareto = { mean = 9, shape = 1 } }", "11:1: size: shape 1 is not within 1.01 and 100"),
        ("{ poisson = 9 }", "11:1: size: a mean of 9 bytes is not within 10 and 8388608 bytes"),
        ("{ pareto = { mean = 9, shap = 2 } }", "11:31: unknown field `shap`, expected `mean` or `shape`"),
        ("{ pareto = { mean = 9 } }", "11:19: missing field `shape`"),
        ("{ exponential = \"9ms\" }", "11:24: \"9ms\" is not a size"),
        ("{ normal = 9 }", "11:10: unknown variant `normal`, expected one of"),
    ];
    for (words, expected) in cases {
        let message = size(words);
        let expected = format!("t.toml:{expected}");
        assert!(message.starts_with(&expected), "{words}: {message}");
    }
    let quick = error("messages", "size = 9\ninterval = \"99us\"");
    assert_eq!(quick, "t.toml:11:1: interval: 99 us is not within 100 and 3600000000 us");
    assert_eq!(error("messages", "size = 9"), "t.toml:9:1: missing field `interval`");
    let foreign = error("messages", "size = 9\ninterval = \"1ms\"\nfps = 30");
    assert!(
        foreign.starts_with("t.toml:12:1: fps: a flow of kind \"messages\" has no such field"),
        "{foreign}"
    );
}

const GOP: &str = "pattern = \"IPPPBB\"\ninterval = \"100ms\"\nbitrate = \"30mbps\"\n";

#[test]
fn groups_are_those_of_the_paper_by_default() {
    let Traffic::Gop(gop) = traffic("gop", GOP) else { panic!("no groups") };
    let classes: Vec<_> = Traffic::Gop(gop.clone())
        .classes()
        .into_iter()
        .map(|class| (class.name, class.reliable, class.priority))
        .collect();
    assert_eq!(classes, [("I".into(), true, 0), ("P".into(), true, 1), ("B".into(), false, 2)]);
    assert_eq!(
        [FrameType::I, FrameType::P, FrameType::B].map(|f| gop.frame_size(f)),
        [120_000, 60_000, 37_500]
    );
    assert!(!gop.spread);
    let words =
        format!("{GOP}sizes = {{ I = 8, P = 2, B = 1 }}\npriorities = {{ B = 7 }}\nreliable = \"key\"");
    let Traffic::Gop(gop) = traffic("gop", &words) else { panic!("no groups") };
    assert_eq!((gop.sizes.I, gop.sizes.P, gop.sizes.B), (8.0, 2.0, 1.0));
    assert_eq!(gop.reliable, ReliableFrames::Key);
    assert_eq!(priorities(&Traffic::Gop(gop)), [0, 1, 7]);
}

#[test]
fn wrong_groups_are_located() {
    let with = |line: &str| error("gop", &format!("{GOP}{line}"));
    assert_eq!(with("priorities = { X = 1 }"), "t.toml:13:1: priorities: \"X\" is none of I, P, B");
    assert_eq!(with("priorities = { B = 8 }"), "t.toml:13:1: priorities: 8 is not within 0 and 7");
    assert_eq!(with("sizes = { B = 0 }"), "t.toml:13:1: sizes: 0 is not within 0.000001 and 1e9");
    let pattern = error("gop", &GOP.replace("IPPPBB", "PIB"));
    assert_eq!(pattern, "t.toml:10:1: pattern: \"PIB\" is not an I followed by any of I, P and B");
    let huge = error("gop", &GOP.replace("30mbps", "9gbps"));
    assert!(huge.starts_with("t.toml:12:1: bitrate: its largest frame"), "{huge}");
}

/// Creates a temporary folder for this test, with these files.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("squall-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for (file, text) in files {
        std::fs::write(folder.join(file), text).expect("a file");
    }
    folder
}

/// Returns the error of a flow with this film.
fn film_error(name: &str, csv: &str, fields: &str) -> String {
    let scenario = text("frames", &format!("file = \"film.csv\"\n{fields}"));
    let folder = folder(name, &[("film.csv", csv), ("t.toml", &scenario)]);
    let words = Scenario::load(&folder.join("t.toml")).expect_err("should be refused").to_string();
    std::fs::remove_dir_all(&folder).expect("it is ours");
    words.replace(&format!("{}/", folder.display()), "")
}

#[test]
fn a_film_is_loaded_from_beside_the_scenario() {
    let csv = "frame,pts_ms,type,layer,size_bytes,psnr\n0,0.0,I,0,900,\n1,33.3,P,0,100,\n2,66.7,P,0,200,9\n";
    let scenario = text("frames", "file = \"film.csv\"\nbitrate = \"1mbps\"");
    let folder = folder("film", &[("film.csv", csv), ("t.toml", &scenario)]);
    let scenario = Scenario::load(&folder.join("t.toml"));
    std::fs::remove_dir_all(&folder).expect("it is ours");
    let scenario = scenario.expect("it loads");
    let Traffic::Frames(film) = &scenario.flows[0].traffic else { panic!("no film") };
    assert_eq!((film.layers, priorities(&scenario.flows[0].traffic)), (None, vec![0, 1, 2]));
    let trace = film.trace.as_ref().expect("it is loaded");
    assert_eq!((trace.pictures(), trace.bytes(), trace.duration_us()), (3, 1_200, 100_050));
    // 1 Mbps for 100.05 ms are 12,506 bytes, three quarters of them the first frame's.
    assert_eq!(film.largest_frame(), Some(9_379));
}

#[test]
fn wrong_films_name_both_lines() {
    let head = "frame,pts_ms,type,layer,size_bytes";
    let lines = |lines: &str| format!("{head}\n0,0,I,0,900\n{lines}\n");
    let bad = |name: &str, rows: &str| film_error(name, &lines(rows), "");
    let at = "t.toml:10:1: film.csv:3: ";
    assert_eq!(
        bad("size", "1,33,P,0,many"),
        format!("{at}size_bytes: \"many\" is not a whole number from 1 to 16777216")
    );
    assert_eq!(bad("type", "1,33,X,0,9"), format!("{at}type: \"X\" is none of I, P and B"));
    assert_eq!(bad("short", "1,33,P"), format!("{at}layer: the line has no such field"));
    assert_eq!(
        bad("pts", "1,-1,P,0,9"),
        format!("{at}pts_ms: \"-1\" is not a number of milliseconds from 0 to 86400000")
    );
    assert_eq!(bad("twice", "0,0,P,0,9"), format!("{at}layer: not above that of the line before it"));
    let still = film_error("still", &lines(""), "");
    assert_eq!(still, "t.toml:10:1: film.csv:2: a film has at least two pictures, at different times");
    let column = film_error("column", "frame,pts_ms\n", "");
    assert_eq!(column, "t.toml:10:1: film.csv:1: there is no column size_bytes");
    let missing = error("frames", "");
    assert_eq!(missing, "t.toml:9:1: missing field `file`");
}

#[test]
fn layers_are_asked_for() {
    let csv = "frame,pts_ms,type,layer,size_bytes\n0,0,,0,9\n0,0,,1,9\n1,33,,0,9\n";
    assert_eq!(film_error("layers", csv, ""), "t.toml:10:1: file: it has 2 layers, so it needs `layers = 2`");
    let untyped = "frame,pts_ms,type,size_bytes\n0,0,I,9\n1,33,,9\n";
    assert_eq!(
        film_error("untyped", untyped, ""),
        "t.toml:10:1: file: it does not give the types of all frames, so it needs `layers`"
    );
    let film = traffic("frames", "file = \"f\"\nlayers = 3\npriorities = { L2 = 6 }");
    assert_eq!(priorities(&film), [0, 1, 6]);
    let key = error("frames", "file = \"f\"\nlayers = 3\nreliable = \"key\"");
    assert!(key.starts_with("t.toml:12:1: reliable: layers are"), "{key}");
    assert_eq!(error("frames", "file = \"f\"\nlayers = 9"), "t.toml:11:1: layers: 9 is not within 1 and 8");
}

#[test]
fn a_film_is_what_an_encoder_takes() {
    let Traffic::Film(film) = traffic("film", "bitrate = \"6mbps\"\nfps = 25") else { panic!("no film") };
    assert_eq!((film.width, film.height, film.disposable), (1280, 720, false));
    assert_eq!((film.length.micros(), film.deadline.micros()), (10_000_000, 150_000));
    assert_eq!(priorities(&Traffic::Film(film)), [0, 1, 2]);
    let cases = [
        ("bitrate = \"1kbps\"", "10:1: encoder setting bitrate_bps = 1000: must be 10 kbps to 200 Mbps"),
        ("bitrate = 9e6\nwidth = 8", "11:1: encoder setting width = 8: must be at least 16"),
        ("bitrate = 9e6\nheight = 99", "11:1: picture size 1280x99"),
        ("bitrate = 9e6\nfps = 0", "11:1: encoder setting fps = 0: must be from 1 to 240"),
        ("bitrate = 9e6\nlength = \"61s\"", "11:1: length: it must be above 0, and at most one minute"),
        (
            "bitrate = 9e6\nkeyframe_interval = \"100ms\"\ndisposable = true",
            "11:1: encoder setting key_interval = 3: must be even with disposable frames",
        ),
    ];
    for (fields, expected) in cases {
        let words = error("film", &fields.replace("9e6", "9000000"));
        assert!(words.starts_with(&format!("t.toml:{expected}")), "{fields}: {words}");
    }
}

#[test]
fn kinds_with_feedback_have_defaults() {
    let Traffic::Game(game) = traffic("game", "bitrate_min = \"2mbps\"\nbitrate_max = \"20mbps\"") else {
        panic!("no game")
    };
    assert_eq!((game.fps, game.keyframe_interval, game.deadline.micros()), (60, None, 200_000));
    assert_eq!(Traffic::Game(game).follows(), Some(Follow::Link));
    let words = "bitrate_min = \"2mbps\"\nbitrate_max = \"20mbps\"\nfollow = \"safe\"\ndeadline = \"300ms\"";
    assert_eq!(traffic("game", words).follows(), Some(Follow::Safe { within_us: 150_000 }));
    let Traffic::Dash(dash) = traffic("dash", "bitrate = \"6592kbps\"") else { panic!("no film") };
    assert_eq!((dash.segment.micros(), dash.request.bytes(), dash.segment_size()), (200_000, 300, 164_800));
    let Traffic::Tiles(tiles) = traffic("tiles", "bitrate = \"72mbps\"\nhead = { speed = 0 }") else {
        panic!("no tiles")
    };
    assert_eq!((tiles.columns, tiles.rows, tiles.fps, tiles.tile_size()), (12, 6, 30, 4_166));
    assert_eq!((tiles.viewport.width, tiles.head.speed, tiles.head.tilt), (100.0, 0.0, 15.0));
    assert_eq!(tiles.pictures, None);
    let Traffic::Tiles(tiles) = traffic("tiles", "bitrate = \"40mbps\"\npictures = { length = \"500ms\" }")
    else {
        panic!("no tiles")
    };
    let pictures = tiles.pictures.expect("they are real");
    let sphere = tiles.sphere(&pictures);
    assert_eq!((sphere.width, sphere.height, sphere.pictures), (1536, 768, 15));
    assert_eq!(sphere.picture_bytes, [166_666, 83_333, 16_666]);
    let words = "size = 9\ninterval = \"1ms\"\nblocking = true\nsend_buffer = \"64kB\"";
    let Traffic::Messages(messages) = traffic("messages", words) else { panic!("no messages") };
    assert!(messages.blocking && messages.send_buffer.is_some_and(|buffer| buffer.bytes() == 64_000));
}

#[test]
fn wrong_fields_of_kinds_with_feedback_are_located() {
    let rates = "bitrate_min = \"2mbps\"\nbitrate_max = \"20mbps\"\n";
    let cases = [
        ("game", "bitrate_min = \"2mbps\"".to_owned(), "9:1: missing field `bitrate_max`"),
        ("game", format!("{rates}share = 0"), "12:1: share: it must be above 0"),
        (
            "game",
            format!("{rates}follow = \"most\""),
            "12:10: unknown variant `most`, expected `link` or `safe`",
        ),
        ("game", format!("{rates}bitrate = 1"), "12:1: bitrate: a flow of kind \"game\" has no such field"),
        ("game", "bitrate_min = 9\nbitrate_max = 8".to_owned(), "10:1: bitrate_min: it must be above 0, and"),
        ("game", format!("{rates}key_ratio = 0.5"), "12:1: key_ratio: 0.5 is not within 1 and 100"),
        (
            "messages",
            "size = 9\ninterval = \"1ms\"\nsend_buffer = 9".to_owned(),
            "12:1: send_buffer: only a blocking flow waits for room in it",
        ),
        (
            "messages",
            "size = 9\ninterval = \"1ms\"\nblocking = true\nsend_buffer = 0".to_owned(),
            "13:1: send_buffer: 0 is not within 1 and 67108864 bytes",
        ),
        ("dash", "bitrate = 9\nbuffer = \"300ms\"".to_owned(), "11:1: buffer: it must be a whole number of"),
        ("dash", "bitrate = 9\nsegment = \"10us\"".to_owned(), "11:1: segment: it must be at least 1000us"),
        ("dash", "bitrate = \"900gbps\"".to_owned(), "10:1: bitrate: its largest segment of"),
        ("tiles", "bitrate = 9\njitter = 0.1\npictures = {}".to_owned(), "11:1: jitter: real pictures have"),
        ("tiles", "bitrate = 9\npictures = { width = 99 }".to_owned(), "11:1: pictures: picture size 99x768"),
        (
            "tiles",
            "bitrate = 9\npictures = { width = 100 }".to_owned(),
            "11:1: pictures: 100 pixels cannot be",
        ),
        (
            "tiles",
            "bitrate = 9\npictures = { length = \"60s\" }".to_owned(),
            "11:1: pictures: 1800 of 1536x768",
        ),
        ("tiles", "bitrate = 9\ncolumns = 65".to_owned(), "11:1: columns: 65 is not within 1 and 64"),
        ("tiles", "bitrate = 9\nhead = { speed = 361 }".to_owned(), "11:1: head: speed: 361 is not within 0"),
        ("tiles", "bitrate = 9\nhead = { sped = 1 }".to_owned(), "11:10: unknown field `sped`"),
        ("tiles", "bitrate = 9\nreliable = \"key\"".to_owned(), "11:12: unknown variant `key`"),
        ("tiles", "bitrate = 9\ndeadline = \"11s\"".to_owned(), "11:1: deadline: 11000000 is not within"),
    ];
    for (kind, fields, expected) in cases {
        let words = error(kind, &fields);
        assert!(words.starts_with(&format!("t.toml:{expected}")), "{kind} {fields}: {words}");
    }
}
