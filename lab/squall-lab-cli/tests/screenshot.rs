//! The page of an experiment in a real browser: its figures are visible in light and dark mode, and
//! it loads no external resources.

mod common;

use std::{
    fs::{self, File},
    io::BufReader,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use common::{Scratch, run};
use squall_testkit::browser::{FLAGS, installed};

/// Width and height of the window in pixels.
const SIZE: (u32, u32) = (1_100, 2_600);

/// Timeout of the browser.
const PATIENCE: Duration = Duration::from_secs(120);

/// Opens a page in a headless browser; returns its output and its log.
fn open(browser: &str, scratch: &Scratch, page: &Path, more: &[&str]) -> (String, String) {
    // Files, because a page is larger than the buffer of a pipe.
    let files = ["browser.out", "browser.log"].map(|name| scratch.path(name));
    let [out, log] = files.each_ref().map(|file| File::create(file).expect("is made"));
    let mut command = Command::new(browser);
    command
        .args(FLAGS)
        .arg("--force-device-scale-factor=1")
        .arg(format!("--user-data-dir={}", scratch.path("browser").display()))
        .arg(format!("--window-size={},{}", SIZE.0, SIZE.1))
        .args(more)
        .arg(format!("file://{}", page.display()))
        .stdout(out)
        .stderr(log);
    let mut child = command.spawn().expect("the browser starts");
    let begin = Instant::now();
    while child.try_wait().expect("it can be asked").is_none() {
        if begin.elapsed() > PATIENCE {
            child.kill().expect("it is ours");
            panic!("{browser} did not end within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let [out, log] = files.map(|file| fs::read(file).expect("is there"));
    (String::from_utf8_lossy(&out).into_owned(), String::from_utf8_lossy(&log).into_owned())
}

/// A picture of the page, with three bytes per pixel.
struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Picture {
    fn take(browser: &str, scratch: &Scratch, page: &Path, more: &[&str]) -> Self {
        let file: PathBuf = scratch.path("picture.png");
        let shot = format!("--screenshot={}", file.display());
        let (_, log) = open(browser, scratch, page, &[&[shot.as_str()], more].concat());
        let png = File::open(&file).unwrap_or_else(|_| panic!("{log}"));
        let mut decoder = png::Decoder::new(BufReader::new(png));
        decoder.set_transformations(png::Transformations::STRIP_16 | png::Transformations::EXPAND);
        let mut reader = decoder.read_info().expect("is a PNG");
        let mut raw = vec![0; reader.output_buffer_size().expect("fits")];
        let info = reader.next_frame(&mut raw).expect("is whole");
        let samples = info.color_type.samples();
        assert!(samples >= 3, "it has colours");
        let pixels = raw.chunks_exact(samples).flat_map(|pixel| pixel[..3].to_vec()).collect();
        Self { width: info.width as usize, height: info.height as usize, pixels }
    }

    fn pixel(&self, x: usize, y: usize) -> &[u8] {
        let at = 3 * (y * self.width + x);
        &self.pixels[at..at + 3]
    }

    /// Share of the pixels in some rows that differ from the corner, which is empty.
    fn ink(&self, rows: std::ops::Range<usize>) -> f64 {
        let empty = self.pixel(0, 0);
        let all = rows.len() * self.width;
        let inked = rows.flat_map(|y| (0..self.width).map(move |x| (x, y)));
        inked.filter(|(x, y)| self.pixel(*x, *y) != empty).count() as f64 / all as f64
    }

    /// Number of pixels close to a colour.
    fn count(&self, color: [u8; 3]) -> usize {
        let near = |pixel: &[u8]| pixel.iter().zip(color).all(|(a, b)| a.abs_diff(b) < 12);
        self.pixels.chunks_exact(3).filter(|pixel| near(pixel)).count()
    }

    fn brightness(&self) -> f64 {
        self.pixels.iter().map(|sample| f64::from(*sample)).sum::<f64>() / self.pixels.len() as f64
    }
}

fn page(scratch: &Scratch) -> PathBuf {
    let file = scratch.write("narrow.toml", include_bytes!("common/narrow.toml")).display().to_string();
    let page = scratch.path("page.html");
    let (out, name) = (scratch.path("results").display().to_string(), page.display().to_string());
    let output = run(["repro", &file, "--out", &out, "--report", &name]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    page
}

#[test]
fn a_browser_shows_the_page() {
    let Some(browser) = installed() else { return };
    let scratch = Scratch::new("screenshot");
    let page = page(&scratch);
    let light = Picture::take(browser, &scratch, &page, &[]);
    assert_eq!((light.width, light.height), (SIZE.0 as usize, SIZE.1 as usize));
    assert!(light.brightness() > 200.0, "a light page: {}", light.brightness());
    // Both schedulers are drawn, in the colours of the first two styles: lines, markers, stems and
    // bands.
    for color in [[0x00, 0x68, 0xa8], [0xc0, 0x4f, 0x00]] {
        assert!(light.count(color) > 500, "{color:?}: {}", light.count(color));
    }
    // Headings, tables and figures follow each other: no third of the used part of the page is
    // empty.
    let end = (0..light.height).rev().find(|y| light.ink(*y..y + 1) > 0.0).expect("something is drawn");
    assert!(end > 900, "the page is {end} pixels long");
    for third in 0..3 {
        let rows = end * third / 3..end * (third + 1) / 3;
        let ink = light.ink(rows.clone());
        assert!((0.01..0.6).contains(&ink), "ink in rows {rows:?}: {ink}");
    }
    let dark = Picture::take(browser, &scratch, &page, &["--blink-settings=preferredColorScheme=0"]);
    assert!(dark.brightness() < 90.0, "a dark page: {}", dark.brightness());
    assert!(dark.count([0x5c, 0xb8, 0xf2]) > 500, "drawn in the colours for the dark");
}

#[test]
fn a_browser_has_nothing_to_load_and_nothing_to_complain_of() {
    let Some(browser) = installed() else { return };
    let scratch = Scratch::new("screenshot-dom");
    let page = page(&scratch);
    // A request for any name would fail and appear in the log.
    let more = ["--dump-dom", "--enable-logging=stderr", "--v=0", "--host-resolver-rules=MAP * ~NOTFOUND"];
    let (dom, log) = open(browser, &scratch, &page, &more);
    assert!(dom.contains("</html>"), "{log}");
    assert_eq!(dom.matches("<svg").count(), 5, "three figures and two single runs");
    assert_eq!(dom.matches("<svg").count(), dom.matches("</svg>").count());
    let complaints: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    let foreign = |text: &str| text.contains("http://") || text.contains("https://");
    let loads = dom.split('<').filter(|tag| {
        let names = ["src=", "href=\"http", "url(", "@import", "<link", "<script"];
        !tag.starts_with("style") && names.iter().any(|name| tag.contains(name)) && foreign(tag)
    });
    assert_eq!(loads.count(), 0);
    assert!(
        !dom.contains("<script")
            && !dom.contains("<link")
            && !dom.contains("@import")
            && !dom.contains("url(")
    );
}
