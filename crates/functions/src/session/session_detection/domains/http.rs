//! What a client asks for in plain HTTP (RFC 9112 §3), and the URLs that it is one of.

/// Port of plain HTTP, which URLs and requests need not name.
const PORT: &str = ":80";
/// What a URL of plain HTTP begins with.
const SCHEME: &str = "http://";

/// Authority and path of the request that a segment begins with; none of one whose target or `Host`
/// goes on in the next segment.
pub fn request(segment: &[u8]) -> Option<(&str, &str)> {
    let method = segment.iter().take(MOST_METHOD).position(|octet| *octet == b' ')?;
    if method == 0 || !segment[..method].iter().all(u8::is_ascii_uppercase) {
        return None;
    }
    let mut lines = segment[method + 1..].split_inclusive(|octet| *octet == b'\n');
    let target = text(lines.next()?)?;
    let (target, version) = target.split_once(' ')?;
    if !version.starts_with("HTTP/1.") {
        return None;
    }
    if let Some(absolute) = target.strip_prefix(SCHEME) {
        let at = absolute.find('/').unwrap_or(absolute.len());
        let (authority, path) = absolute.split_at(at);
        return Some((authority, if path.is_empty() { "/" } else { path }));
    }
    if !target.starts_with('/') {
        return None;
    }
    let mut hosts = lines.map_while(text).take_while(|line| !line.is_empty()).filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim())
    });
    let host = hosts.next()?;
    // A request with two is refused by servers (RFC 9112 §3.2).
    hosts.next().is_none().then_some((host, target))
}

/// Octets of a method, and the space behind it.
const MOST_METHOD: usize = 17;

/// A line with its end, as text without.
fn text(line: &[u8]) -> Option<&str> {
    let line = line.strip_suffix(b"\n")?;
    std::str::from_utf8(line.strip_suffix(b"\r").unwrap_or(line)).ok()
}

/// The host of an authority in small letters, without a port.
pub fn host(authority: &str) -> String {
    let end = authority.rfind(':').filter(|at| !authority[*at..].contains(']'));
    authority[..end.unwrap_or(authority.len())].to_ascii_lowercase()
}

/// Whether a request is for a URL or for what lies below it.
pub fn is_of(url: &str, authority: &str, path: &str) -> bool {
    let Some(url) = url.strip_prefix(SCHEME) else { return false };
    let at = url.find('/').unwrap_or(url.len());
    let (of_url, begin) = url.split_at(at);
    let bare = |authority: &str| {
        let authority = authority.strip_suffix(PORT).unwrap_or(authority).to_ascii_lowercase();
        authority.strip_suffix('.').map(str::to_owned).unwrap_or(authority)
    };
    let is_below = |rest: &str| {
        begin.ends_with('/') || rest.is_empty() || rest.starts_with(['/', '?', '#', ';'])
    };
    bare(of_url) == bare(authority) && path.strip_prefix(begin).is_some_and(is_below)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_has_an_authority_and_a_path() {
        for (segment, found) in [
            ("GET /a?b HTTP/1.1\r\nHost: example.com\r\n\r\n", Some(("example.com", "/a?b"))),
            (
                "POST /a HTTP/1.0\r\nA: b\r\nhOST:\texample.com:8080 \r\nB:",
                Some(("example.com:8080", "/a")),
            ),
            ("GET http://example.com HTTP/1.1\r\nHost: other\r\n\r\n", Some(("example.com", "/"))),
            ("GET http://[2001:db8::1]:80/x HTTP/1.1\r\n", Some(("[2001:db8::1]:80", "/x"))),
            ("GET /a HTTP/1.1\r\nHost: one\r\nHost: two\r\n\r\n", None),
            ("GET /a HTTP/1.1\r\n\r\nHost: in-the-content\r\n", None),
            ("GET /a HTTP/1.1\r\nHost: examp", None),
            ("GET /a HTTP/2\r\nHost: example.com\r\n\r\n", None),
            ("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n", None),
            ("get /a HTTP/1.1\r\nHost: example.com\r\n\r\n", None),
            ("HTTP/1.1 200 OK\r\nHost: example.com\r\n\r\n", None),
            (" /a HTTP/1.1\r\n", None),
            ("", None),
        ] {
            assert_eq!(request(segment.as_bytes()), found, "{segment:?}");
        }
    }

    #[test]
    fn a_url_has_what_lies_below_it() {
        for (url, authority, path, is_in) in [
            ("http://example.com/a", "example.com", "/a", true),
            ("http://example.com/a", "EXAMPLE.com:80", "/a/b", true),
            ("http://example.com:80/a", "example.com.", "/a?b", true),
            ("http://example.com/a", "example.com", "/ab", false),
            ("http://example.com/a", "example.com", "/A", false),
            ("http://example.com/a/", "example.com", "/a", false),
            ("http://example.com/", "example.com", "/any", true),
            ("http://example.com/a", "www.example.com", "/a", false),
            ("http://example.com:8080/a", "example.com", "/a", false),
            ("http://example.com:8080/a", "example.com:8080", "/a", true),
            ("http://[2001:db8::1]/a", "[2001:DB8::1]", "/a", true),
            ("example.com", "example.com", "/", false),
        ] {
            assert_eq!(is_of(url, authority, path), is_in, "{url} {authority} {path}");
        }
        for (authority, name) in [
            ("Example.com:80", "example.com"),
            ("192.0.2.1", "192.0.2.1"),
            ("[2001:db8::1]:80", "[2001:db8::1]"),
            ("[2001:db8::1]", "[2001:db8::1]"),
        ] {
            assert_eq!(host(authority), name);
        }
    }

    proptest! {
        #[test]
        fn any_octets_are_read(segment in prop::collection::vec(any::<u8>(), 0..80)) {
            let segment = [b"GET /", &segment[..]].concat();
            if let Some((authority, path)) = request(&segment) {
                host(authority);
                is_of("http://example.com/a", authority, path);
            }
        }
    }
}
