//! What a node serves, and its description (OpenAPI 3.1), which is made of the same list.

use std::sync::Arc;
use std::time::Duration;

use axum::routing::get;
use axum::{Extension, Router};
use utoipa::{OpenApi, openapi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use weft_http::bounds::Bounds;
use weft_http::extract::Json;
use weft_http::openapi::complete;

use crate::requests::function_move::Moves;
use crate::requests::{
    bearers, capture, configuration, function_move, live, metrics, probe, radio, trace, upgrade,
    views, workers,
};
use crate::state::State;

/// A body may hold a configuration file.
const BOUNDS: Bounds = Bounds { body: 4 << 20, answer: Duration::from_secs(30) };

/// Where the description is found.
const DESCRIPTION: &str = "/v1/openapi.json";

/// The description, but for its paths.
#[derive(OpenApi)]
#[openapi(info(
    title = "Weft node",
    description = "What a node shows of itself, and how it is changed while it runs. Served on \
                   the socket of the node; over TCP `/metrics`, `/healthz` and `/readyz`, \
                   where an address is given for metrics, and all of this beside the node's page: there all but GET needs the \
                   page's token, and `/v1/snapshot` is up to a second old.",
    license(name = "Apache-2.0", identifier = "Apache-2.0"),
))]
struct Description;

/// All that is served on the node's socket, and beside its page.
pub(crate) fn all(moves: &Arc<Moves>, state: State) -> Router {
    BOUNDS.keep(served()).layer(Extension(moves.clone())).with_state(state)
}

/// All that is served over TCP where metrics are.
pub(crate) fn metrics_and_probes(state: State) -> Router {
    let routes = Router::new()
        .route("/metrics", get(metrics::metrics))
        .route("/healthz", get(probe::healthz))
        .route("/readyz", get(probe::readyz));
    BOUNDS.keep(routes).with_state(state)
}

/// All routes, with the one to their description.
fn served() -> Router<State> {
    let (routes, described) = parts();
    routes.route(DESCRIPTION, get(async move || Json(described)))
}

/// The routes, and their description.
fn parts() -> (Router<State>, openapi::OpenApi) {
    let (routes, mut described) = routes().split_for_parts();
    complete(&mut described, &[(503, "The node is stopping"), (408, "The answer takes too long")]);
    (routes, described)
}

fn routes() -> OpenApiRouter<State> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(views::snapshot))
        .routes(routes!(views::extended))
        .routes(routes!(views::paths))
        .routes(routes!(views::peers))
        .routes(routes!(views::topology))
        .routes(routes!(views::neighbours))
        .routes(routes!(views::kept))
        .routes(routes!(views::fused))
        .routes(routes!(views::pfcp))
        .routes(routes!(views::bgp))
        .routes(routes!(views::sessions))
        .routes(routes!(views::users))
        .routes(routes!(views::user))
        .routes(routes!(views::ways))
        .routes(routes!(views::bearers))
        .routes(routes!(views::bearer_search))
        .routes(routes!(bearers::list, bearers::change))
        .routes(routes!(bearers::one))
        .routes(routes!(live::events, bearers::events))
        .routes(routes!(live::live))
        .routes(routes!(live::history))
        .routes(routes!(live::model))
        .routes(routes!(configuration::apply))
        .routes(routes!(configuration::compose))
        .routes(routes!(function_move::begin, function_move::outcome))
        .routes(routes!(function_move::list, function_move::participant::message))
        .routes(routes!(radio::note))
        .routes(routes!(workers::park))
        .routes(routes!(upgrade::take_over))
        .routes(routes!(upgrade::upgrade))
        .routes(routes!(trace::trace))
        .routes(routes!(capture::capture))
        .routes(routes!(metrics::metrics))
        .routes(routes!(probe::healthz))
        .routes(routes!(probe::readyz))
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
