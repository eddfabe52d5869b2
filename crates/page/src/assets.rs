//! The files of the page, and how they are served.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use weft_http::prepared::Prepared;
use weft_http::problem::Failure;

/// Whose page it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A node's.
    Node,
    /// A controller's.
    Controller,
}

/// A file.
struct Asset {
    path: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Files below `assets`, each with its media type.
macro_rules! files {
    ($($path:literal $kind:ident,)*) => {
        &[$(Asset {
            path: concat!("/page/", $path),
            kind: $kind,
            bytes: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/", $path)),
        },)*]
    };
}

const FILES: &[Asset] = files! {
    "node.html" HTML,
    "site.html" HTML,
    "icon.svg" SVG,
    "style/base.css" CSS,
    "style/picture.css" CSS,
    "style/parts.css" CSS,
    "script/node.js" SCRIPT,
    "script/site.js" SCRIPT,
    "script/api.js" SCRIPT,
    "script/dom.js" SCRIPT,
    "script/format.js" SCRIPT,
    "script/live.js" SCRIPT,
    "script/rates.js" SCRIPT,
    "script/token.js" SCRIPT,
    "script/views.js" SCRIPT,
    "script/chart.js" SCRIPT,
    "script/picture/layout.js" SCRIPT,
    "script/picture/draw.js" SCRIPT,
    "script/node/detail.js" SCRIPT,
    "script/node/advice.js" SCRIPT,
    "script/node/contexts.js" SCRIPT,
    "script/node/counters.js" SCRIPT,
    "script/node/drops.js" SCRIPT,
    "script/node/events.js" SCRIPT,
    "script/node/headroom.js" SCRIPT,
    "script/node/links.js" SCRIPT,
    "script/node/moves.js" SCRIPT,
    "script/node/picture_table.js" SCRIPT,
    "script/node/summary.js" SCRIPT,
    "script/node/users.js" SCRIPT,
    "script/node/user.js" SCRIPT,
    "script/node/watch.js" SCRIPT,
    "vendor/uPlot-1.6.32.min.js" SCRIPT,
    "vendor/uPlot-1.6.32.min.css" CSS,
    "vendor/uPlot-LICENSE" TEXT,
};

/// Serves the files below `/page/`, and the page itself at `/`.
pub fn routes(kind: Kind) -> Router {
    let first = match kind {
        Kind::Node => "/page/node.html",
        Kind::Controller => "/page/site.html",
    };
    let file = |request: Request| async move { serve(request.uri().path(), request.headers()) };
    Router::new()
        .route("/", get(async move |headers: HeaderMap| serve(first, &headers)))
        .route("/page/{*file}", get(file))
}

/// Answers by path. Browsers ask again each time, since another version of the program has
/// other files.
static ANSWERS: LazyLock<HashMap<&str, Prepared>> = LazyLock::new(|| {
    let answer =
        |file: &Asset| (file.path, Prepared::new(file.kind, Bytes::from_static(file.bytes)));
    FILES.iter().map(answer).collect()
});

/// A file, or that the client's copy is still right.
fn serve(path: &str, headers: &HeaderMap) -> Response {
    match ANSWERS.get(path) {
        Some(answer) => answer.answer(headers),
        None => Failure::unknown("the page has no such file").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use axum::http::StatusCode;
    use axum::http::header::{ETAG, IF_NONE_MATCH};

    use super::*;

    /// Paths of all files below a folder, as they are served.
    fn below(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = format!("{prefix}/{}", entry.file_name().to_str().unwrap());
            match entry.path().is_dir() {
                true => below(&entry.path(), &path, found),
                false => drop(found.insert(path)),
            }
        }
    }

    #[test]
    fn every_file_is_carried() {
        let mut there = BTreeSet::new();
        below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("assets"), "/page", &mut there);
        let carried = FILES.iter().map(|file| file.path.to_owned()).collect();
        assert_eq!(there, carried);
    }

    /// What a file names: imports of modules, and links of pages.
    fn named(text: &str) -> Vec<&str> {
        let quoted =
            |mark: &'static str| text.split(mark).skip(1).filter_map(|rest| rest.split('"').next());
        quoted("from \"").chain(quoted("href=\"")).chain(quoted("src=\"")).collect()
    }

    #[test]
    fn files_name_only_files_that_are_there() {
        let ours = FILES.iter().filter(|file| !file.path.contains("/vendor/"));
        for file in ours {
            let text = std::str::from_utf8(file.bytes).unwrap();
            for name in named(text).into_iter().filter(|name| !name.starts_with('#')) {
                let folder = file.path.rsplit_once('/').unwrap().0;
                let mut path: Vec<_> = match name.strip_prefix('/') {
                    Some(_) => Vec::new(),
                    None => folder.split('/').skip(1).collect(),
                };
                for part in name.split('/').filter(|part| !part.is_empty()) {
                    match part {
                        "." => {}
                        ".." => drop(path.pop()),
                        part => path.push(part),
                    }
                }
                let path = format!("/{}", path.join("/"));
                let known = FILES.iter().any(|file| file.path == path);
                assert!(known, "{} names {name}, which would be {path}", file.path);
            }
            let elsewhere = text.replace("http://www.w3.org/", "");
            assert!(!elsewhere.contains("http://") && !elsewhere.contains("https://"));
        }
    }

    #[test]
    fn a_copy_that_is_still_right_is_not_sent_again() {
        let answer = serve("/page/node.html", &HeaderMap::new());
        assert_eq!(answer.status(), StatusCode::OK);
        let mut headers = HeaderMap::new();
        headers.insert(IF_NONE_MATCH, answer.headers()[ETAG].clone());
        assert_eq!(serve("/page/node.html", &headers).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(serve("/page/site.html", &headers).status(), StatusCode::OK);
        assert_eq!(serve("/page/../Cargo.toml", &headers).status(), StatusCode::NOT_FOUND);
    }
}
