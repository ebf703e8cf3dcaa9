//! A headless browser, driven over the DevTools protocol through a pipe.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::program::{Scratch, ends_within};

/// Browsers that support the protocol, in the order in which they are tried.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Time after which a browser without an answer counts as failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Options of a browser for a page without a window, and against downloads of its own.
pub const FLAGS: [&str; 7] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--no-first-run",
];

/// Returns the name of the first browser that is installed. Without one, the running test is
/// [skipped](crate::skipped).
pub fn installed() -> Option<&'static str> {
    let found = BROWSERS.into_iter().find(|name| {
        let asked = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    });
    if found.is_none() {
        crate::skipped(&format!("no browser is installed ({})", BROWSERS.join(", ")));
    }
    found
}

/// A running browser with one page. It ends when this is dropped.
pub struct Browser {
    child: Child,
    to: Option<ChildStdin>,
    from: Receiver<Value>,
    /// Session id of the page; empty before there is a page.
    page: String,
    calls: u64,
    complaints: Vec<String>,
    requests: BTreeSet<String>,
    /// Folder of the browser's profile.
    _scratch: Scratch,
}

impl Browser {
    /// Starts a browser with an empty page. Without one, the running test is [skipped](crate::skipped).
    ///
    /// # Panics
    /// If the browser does not start.
    pub fn start(test: &str) -> Option<Self> {
        let name = installed()?;
        let scratch = Scratch::new(&format!("browser-{test}"));
        // The protocol uses the descriptors 3 and 4.
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh", name]).args(FLAGS);
        command.args(["--remote-debugging-pipe", "--force-device-scale-factor=1"]);
        command.arg(format!("--user-data-dir={}", scratch.path("profile").display()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the browser starts");
        let to = child.stdin.take();
        let from = messages(BufReader::new(child.stdout.take().expect("is piped")));
        let (complaints, requests) = (Vec::new(), BTreeSet::new());
        let mut browser =
            Self { child, to, from, page: String::new(), calls: 0, complaints, requests, _scratch: scratch };
        let target =
            browser.call("Target.createTarget", &json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", &json!({ "targetId": target, "flatten": true }));
        attached["sessionId"].as_str().expect("is attached").clone_into(&mut browser.page);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        Some(browser)
    }

    /// Calls a method of the protocol.
    ///
    /// # Panics
    /// If the browser reports an error, or does not answer.
    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": params });
        if !self.page.is_empty() {
            message["sessionId"] = json!(self.page);
        }
        let to = self.to.as_mut().expect("is open until it is dropped");
        write!(to, "{message}\0").and_then(|()| to.flush()).expect("the browser is there");
        loop {
            let mut message = self.from.recv_timeout(PATIENCE).expect("the browser answers");
            if message["id"] == self.calls {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].take();
            }
            self.note(&message);
        }
    }

    fn note(&mut self, message: &Value) {
        let params = &message["params"];
        match message["method"].as_str() {
            Some("Network.requestWillBeSent") => {
                self.requests.extend(params["request"]["url"].as_str().map(str::to_owned));
            }
            Some("Runtime.exceptionThrown") => self.complaints.push(params.to_string()),
            Some("Log.entryAdded") => self.complaints.push(params["entry"].to_string()),
            _ => {}
        }
    }

    /// Loads an address.
    ///
    /// # Panics
    ///
    /// If loading fails.
    pub fn load(&mut self, url: &str) {
        let loaded = self.call("Page.navigate", &json!({ "url": url }));
        assert!(loaded["errorText"].is_null(), "{url}: {}", loaded["errorText"]);
    }

    /// Sets the size of the page in pixels, and its colour scheme. A page narrower than 600 pixels
    /// has a phone's viewport.
    pub fn set_window(&mut self, width: u32, height: u32, is_dark: bool) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", &features);
    }

    /// Returns the value of a JavaScript expression, awaited if it is a promise.
    ///
    /// # Panics
    ///
    /// If the expression throws.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut result = self.call("Runtime.evaluate", &params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].take()
    }

    /// Writes a picture of the whole page, or of its upper part of this height in pixels, as PNG.
    ///
    /// # Panics
    ///
    /// If the picture cannot be taken or written.
    pub fn take_picture(&mut self, file: &Path, height: Option<u32>) {
        let size = self.call("Page.getLayoutMetrics", &json!({}))["cssContentSize"].clone();
        let height = height.map_or(size["height"].clone(), Value::from);
        let clip = json!({ "x": 0, "y": 0, "width": size["width"], "height": height, "scale": 1 });
        let params = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let data = self.call("Page.captureScreenshot", &params);
        fs::write(file, from_base64(data["data"].as_str().expect("is a picture"))).expect("is written");
    }

    /// Returns exceptions of the page, and the browser's log about it.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// Returns the addresses that the page requested.
    pub fn requests(&self) -> impl Iterator<Item = &str> {
        self.requests.iter().map(String::as_str)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends when its pipe is closed.
        self.to = None;
        if ends_within(&mut self.child, Duration::from_secs(10)).is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Receives the messages of a browser, each ended by a zero byte, until its pipe is closed.
fn messages(mut pipe: BufReader<impl std::io::Read + Send + 'static>) -> Receiver<Value> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut message = Vec::new();
        while pipe.read_until(0, &mut message).is_ok_and(|length| length > 0) {
            message.pop();
            let Ok(read) = serde_json::from_slice(&message) else { return };
            if sender.send(read).is_err() {
                return;
            }
            message.clear();
        }
    });
    receiver
}

/// Decodes base64 (RFC 4648 §4).
fn from_base64(text: &str) -> Vec<u8> {
    let (mut bytes, mut bits, mut held) = (Vec::with_capacity(text.len() / 4 * 3), 0_u32, 0);
    for letter in text.bytes() {
        let six = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => break,
        };
        (bits, held) = (bits << 6 | u32::from(six), held + 6);
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read() {
        for (text, bytes) in
            [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmFy", "foobar")]
        {
            assert_eq!(from_base64(text), bytes.as_bytes(), "{text}");
        }
        assert_eq!(from_base64("+/8="), [0xfb, 0xff]);
    }
}
