//! What a controller serves, and its description (OpenAPI 3.1), which is made of the same
//! list.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi, openapi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use weft_http::bounds::Bounds;
use weft_http::extract::Json;
use weft_http::openapi::complete;
use weft_site::set::MOST_OCTETS;

use super::state::Shared;
use super::{
    documents, events, handovers, leader, metrics, n4, nodes, sessions, shares, standby, upgrade,
    users,
};

/// Documents are the longest that is said: escaped, they have up to twice their octets.
const MOST_BODY: usize = 2 * MOST_OCTETS;

const BOUNDS: Bounds = Bounds { body: MOST_BODY, answer: Duration::from_secs(30) };

/// Where the description is found.
const DESCRIPTION: &str = "/v1/openapi.json";

/// The description, but for its paths.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Weft controller",
        description = "Nodes, users, and handovers between nodes.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    modifiers(&Token),
    // The socket asks for no token.
    security((), ("token" = [])),
)]
struct Description;

/// The token that is asked for over TCP.
struct Token;

impl Modify for Token {
    fn modify(&self, described: &mut openapi::OpenApi) {
        let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        let components = described.components.get_or_insert_default();
        components.add_security_scheme("token", bearer);
    }
}

/// All that a controller serves.
pub fn all() -> Router<Shared> {
    BOUNDS.keep(served())
}

/// All routes, with the one to their description.
fn served() -> Router<Shared> {
    let (routes, described) = parts();
    routes.route(DESCRIPTION, get(async move || Json(described)))
}

/// The routes, and their description.
fn parts() -> (Router<Shared>, openapi::OpenApi) {
    let (routes, mut described) = routes().split_for_parts();
    complete(
        &mut described,
        &[
            (307, "Another replica leads, at the place of `Location`"),
            (401, "The token is missing or wrong, over TCP"),
            (408, "The answer takes too long"),
            (503, "The controller is stopping, or no replica leads"),
        ],
    );
    (routes, described)
}

fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(nodes::controller))
        .routes(routes!(nodes::list))
        .routes(routes!(nodes::gone))
        .routes(routes!(nodes::remove))
        .routes(routes!(nodes::cordon, nodes::uncordon))
        .routes(routes!(nodes::drain))
        .routes(routes!(nodes::rebalance))
        .routes(routes!(n4::shown))
        .routes(routes!(sessions::list))
        .routes(routes!(shares::list))
        .routes(routes!(shares::move_share))
        .routes(routes!(standby::list))
        .routes(routes!(standby::switch_over))
        .routes(routes!(documents::list, documents::apply))
        .routes(routes!(documents::delete))
        .routes(routes!(documents::revisions))
        .routes(routes!(documents::rollout))
        .routes(routes!(upgrade::get, upgrade::begin, upgrade::cancel))
        .routes(routes!(users::list))
        .routes(routes!(users::one, users::put, users::delete))
        .routes(routes!(handovers::list, handovers::order))
        .routes(routes!(handovers::one))
        .routes(routes!(events::events))
        .routes(routes!(metrics::metrics))
        .routes(routes!(leader::healthz))
        .routes(routes!(leader::readyz))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use weft_http::openapi::mistakes;

    use super::*;

    #[test]
    fn the_description_has_what_is_served_and_nothing_else() {
        let (_, described) = parts();
        let mut known: BTreeSet<_> = described.paths.paths.keys().cloned().collect();
        assert!(known.len() > 5);
        known.insert(DESCRIPTION.to_owned());
        // A router shows its paths only to those who debug it.
        let shown = format!("{:?}", served());
        let others = ["/metrics", "/healthz", "/readyz"];
        let is_path = |word: &&str| word.starts_with("/v1") || others.contains(word);
        let words = shown.split('"').filter(is_path);
        assert_eq!(words.map(str::to_owned).collect::<BTreeSet<_>>(), known);
    }

    #[test]
    fn the_description_is_whole_and_its_schemas_are_valid() {
        let (_, described) = parts();
        assert_eq!(mistakes(&described), Vec::<String>::new());
        let described = serde_json::to_value(described).unwrap();
        assert_eq!(described["openapi"], "3.1.0");
        let schemas = described["components"]["schemas"].as_object().unwrap();
        for (name, schema) in schemas {
            assert!(jsonschema::meta::is_valid(schema), "{name}: {schema}");
        }
    }
}
