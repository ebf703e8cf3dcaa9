//! The status page: one file without dependencies.

use std::sync::LazyLock;

use hyper::header::HeaderValue;
use ring::digest::{SHA256, digest};

/// Source of the page.
pub(super) const PAGE: &str = include_str!("page.html");

/// Content Security Policy (level 3) of the page: its own script and style, identified by their
/// hashes, and requests to this server.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let (script, style) = (hash(inside("script")), hash(inside("style")));
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    );
    HeaderValue::try_from(policy).unwrap_or_else(|_| HeaderValue::from_static("default-src 'none'"))
});

pub(super) fn policy() -> HeaderValue {
    POLICY.clone()
}

/// Returns the content of the only element of that name.
fn inside(element: &str) -> &'static str {
    let begin = PAGE.split_once(&format!("<{element}>")).map_or("", |(_, rest)| rest);
    begin.split_once(&format!("</{element}>")).map_or("", |(content, _)| content)
}

fn hash(text: &str) -> String {
    base64(digest(&SHA256, text.as_bytes()).as_ref())
}

/// Encodes bytes in base64 (RFC 4648 §4).
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, n| bits << 8 | u32::from(three.get(n).copied().unwrap_or(0)));
        for n in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * n) & 63) as usize];
            text.push(if n > three.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_has_its_test_vectors() {
        let vectors = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, encoded) in vectors {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }

    #[test]
    fn the_page_needs_nothing_and_runs_nothing_else() {
        for element in ["script", "style"] {
            assert_eq!(PAGE.matches(&format!("<{element}")).count(), 1, "one {element}, whose hash is known");
            assert!(inside(element).len() > 1_000);
        }
        // Namespaces of SVG are names, not requests.
        let rest = PAGE.replace("http://www.w3.org/2000/svg", "");
        let forbidden = ["http:", "https:", "//cdn", " src=", "@import", "url(", " style=", " onclick="];
        for word in forbidden.into_iter().chain([
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "eval(",
            "document.write",
        ]) {
            assert!(!rest.contains(word), "the page has {word}");
        }
        let policy = policy();
        let policy = policy.to_str().expect("is text");
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-") && !policy.contains("unsafe"));
    }
}
